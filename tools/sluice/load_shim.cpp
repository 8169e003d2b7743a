#include "tools/sluice/load_shim.h"

#include <elf.h>
#include <gnu/libc-version.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

namespace sluice::tool {
namespace {

void prepend(const char* variable, const std::string& value, char separator) {
  const char* before = std::getenv(variable);
  const bool has_value = before != nullptr && *before != '\0';
  ::setenv(variable, has_value ? (value + separator + before).c_str() : value.c_str(), 1);
}

template <class T>
bool read_at(std::ifstream& file, std::uint64_t offset, T* out) {
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(out), sizeof *out);
  return file.good();
}

std::string read_text(std::ifstream& file, std::uint64_t offset) {
  std::string text;
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  std::getline(file, text, '\0');
  return text;
}

struct Segments {
  std::vector<Elf64_Phdr> all;

  /// Where in the file an address lies, 0 if nowhere.
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t address) const {
    for (const Elf64_Phdr& s : all)
      if (s.p_type == PT_LOAD && address >= s.p_vaddr && address - s.p_vaddr < s.p_filesz)
        return s.p_offset + (address - s.p_vaddr);
    return 0;
  }
};

/// The dynamic entries of a 64-bit ELF file.
std::vector<Elf64_Dyn> dynamic_entries(std::ifstream& file, Segments* segments) {
  Elf64_Ehdr header{};
  if (!read_at(file, 0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
    return {};
  std::vector<Elf64_Dyn> entries;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!read_at(file, header.e_phoff + i * sizeof segment, &segment)) return {};
    segments->all.push_back(segment);
  }
  for (const Elf64_Phdr& segment : segments->all) {
    if (segment.p_type != PT_DYNAMIC) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz;
         at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry{};
      if (!read_at(file, segment.p_offset + at, &entry) || entry.d_tag == DT_NULL) break;
      entries.push_back(entry);
    }
  }
  return entries;
}

}  // namespace

std::string sanitizer_of(const std::string& program) {
  std::ifstream file(program, std::ios::binary);
  Segments segments;
  const std::vector<Elf64_Dyn> entries = dynamic_entries(file, &segments);
  std::uint64_t names = 0;
  for (const Elf64_Dyn& entry : entries)
    if (entry.d_tag == DT_STRTAB) names = segments.offset_of(entry.d_un.d_ptr);
  if (names == 0) return {};
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag != DT_NEEDED) continue;
    std::string name = read_text(file, names + entry.d_un.d_val);
    if (name.rfind("libasan.so", 0) == 0) return name;
  }
  return {};
}

bool can_audit(const std::string& program, const std::string& glibc_version) {
  const std::size_t slash = program.rfind('/');
  if (program.substr(slash == std::string::npos ? 0 : slash + 1) == "valgrind") return false;
  int major = 0;
  int minor = 0;
  if (std::sscanf(glibc_version.c_str(), "%d.%d", &major, &minor) != 2) return false;
  return major > 2 || (major == 2 && minor >= 35);
}

void load_shim(const ShimOptions& options) {
  const std::string sanitizer = sanitizer_of(options.program);
  prepend("LD_PRELOAD",
          (sanitizer.empty() ? "" : sanitizer + " ") + options.folder + "/libsluice.so", ' ');
  prepend("LD_LIBRARY_PATH", options.folder, ':');
  const std::string audit = options.folder + "/libsluice-audit.so";
  if (options.wants_audit && can_audit(options.program, ::gnu_get_libc_version()) &&
      ::access(audit.c_str(), R_OK) == 0)
    prepend("LD_AUDIT", audit, ':');
}

}  // namespace sluice::tool
