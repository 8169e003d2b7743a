#include "tools/sluice/elf_view.h"

#include <cstring>
#include <string_view>
#include <utility>

namespace sluice::tool {

ElfView::ElfView(std::vector<char> bytes) : bytes_(std::move(bytes)) {
  // A 32-bit header is shorter, but has class and machine at the same place.
  if (bytes_.size() < sizeof(Elf32_Ehdr) || std::memcmp(bytes_.data(), ELFMAG, SELFMAG) != 0)
    return;
  std::memcpy(&header_, bytes_.data(), std::min(sizeof header_, bytes_.size()));
  is_elf_ = true;
}

template <class T>
bool ElfView::read(std::uint64_t at, T* out) const {
  if (at > bytes_.size() || bytes_.size() - at < sizeof(T)) return false;
  std::memcpy(out, bytes_.data() + at, sizeof(T));
  return true;
}

std::string ElfView::machine() const {
  const bool is_64 = header_.e_ident[EI_CLASS] == ELFCLASS64;
  switch (header_.e_machine) {
    case EM_X86_64:
      return is_64 ? "x86-64" : "x32";
    case EM_386:
      return "32-bit x86";
    case EM_AARCH64:
      return "aarch64";
    case EM_ARM:
      return "32-bit ARM";
    case EM_PPC64:
      return "POWER";
    case EM_RISCV:
      return "RISC-V";
    default:
      return "machine " + std::to_string(header_.e_machine);
  }
}

std::string ElfView::loader() const {
  for (unsigned i = 0; i < header_.e_phnum; ++i) {
    Elf64_Phdr p;
    if (!read(header_.e_phoff + i * sizeof p, &p) || p.p_type != PT_INTERP) continue;
    if (p.p_offset > bytes_.size() || p.p_filesz > bytes_.size() - p.p_offset) return "";
    const char* text = bytes_.data() + p.p_offset;
    return {text, ::strnlen(text, p.p_filesz)};
  }
  return "";
}

bool ElfView::has_section(const char* name) const {
  Elf64_Shdr names;
  if (!read(header_.e_shoff + header_.e_shstrndx * sizeof names, &names)) return false;
  for (unsigned i = 0; i < header_.e_shnum; ++i) {
    Elf64_Shdr s;
    if (!read(header_.e_shoff + i * sizeof s, &s)) return false;
    const std::uint64_t at = names.sh_offset + s.sh_name;
    if (at < bytes_.size() && std::strncmp(bytes_.data() + at, name, bytes_.size() - at) == 0)
      return true;
  }
  return false;
}

bool ElfView::contains(const char* text) const {
  return std::string_view(bytes_.data(), bytes_.size()).find(text) != std::string_view::npos;
}

}  // namespace sluice::tool
