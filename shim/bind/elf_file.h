// The symbols of an ELF file on disk, read without trusting it: every offset is checked, nothing is
// relocated, nothing of it is executed.
#pragma once

#include "common/result.h"

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::bind {

/// A mapped 64-bit x86-64 ELF file. Move-only.
class ElfFile {
 public:
  static Result<ElfFile> open(const char* path);
  ElfFile(ElfFile&& other) noexcept;
  ElfFile& operator=(ElfFile&&) = delete;
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;
  ~ElfFile();

  [[nodiscard]] std::span<const Elf64_Phdr> segments() const { return segments_; }
  [[nodiscard]] bool has_section(std::string_view name) const;

  struct Symbols {
    std::span<const Elf64_Sym> table;
    std::string_view names;
    /// Empty for an offset outside the table.
    [[nodiscard]] std::string_view name(const Elf64_Sym& symbol) const;
  };
  /// .symtab (type SHT_SYMTAB) or .dynsym (SHT_DYNSYM); empty if absent.
  [[nodiscard]] Symbols symbols(std::uint32_t type) const;
  /// True if an instruction at this address would be executable.
  [[nodiscard]] bool is_code(std::uint64_t address, std::uint64_t bytes) const;

 private:
  ElfFile() = default;
  template <class T>
  [[nodiscard]] std::span<const T> array(std::uint64_t offset, std::uint64_t count) const;
  [[nodiscard]] std::string_view text(const Elf64_Shdr& section) const;

  std::span<const std::byte> bytes_;
  std::span<const Elf64_Phdr> segments_;
  std::span<const Elf64_Shdr> sections_;
  std::string_view section_names_;
};

}  // namespace sluice::bind
