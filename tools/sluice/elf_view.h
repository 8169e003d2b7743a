// The parts of an ELF file that tell whether the shim can be loaded into it. Every offset of the
// file is checked; a damaged file is one without the part.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::tool {

class ElfView {
 public:
  explicit ElfView(std::vector<char> bytes);
  [[nodiscard]] bool is_elf() const { return is_elf_; }
  /// "x86-64", "32-bit x86", "aarch64" ...; a number for what has no name here.
  [[nodiscard]] std::string machine() const;
  /// The dynamic loader that the file asks for; empty: it is statically linked.
  [[nodiscard]] std::string loader() const;
  [[nodiscard]] bool has_section(const char* name) const;
  [[nodiscard]] bool contains(const char* text) const;

 private:
  template <class T>
  bool read(std::uint64_t at, T* out) const;

  std::vector<char> bytes_;
  Elf64_Ehdr header_{};
  bool is_elf_ = false;
};

}  // namespace sluice::tool
