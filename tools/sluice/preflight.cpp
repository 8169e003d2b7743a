#include "tools/sluice/preflight.h"

#include "tools/sluice/exit_codes.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace sluice::tool {
namespace {

/// The parts of a 64-bit ELF file that matter here; every offset is checked.
class ElfView {
 public:
  explicit ElfView(std::vector<char> bytes) : bytes_(std::move(bytes)) {
    if (bytes_.size() < sizeof header_ || std::memcmp(bytes_.data(), ELFMAG, SELFMAG) != 0) return;
    std::memcpy(&header_, bytes_.data(), sizeof header_);
    is_elf_ = true;
  }
  [[nodiscard]] bool is_elf() const { return is_elf_; }
  [[nodiscard]] bool is_x86_64() const {
    return header_.e_ident[EI_CLASS] == ELFCLASS64 && header_.e_machine == EM_X86_64;
  }
  [[nodiscard]] bool has_segment(std::uint32_t type) const {
    for (unsigned i = 0; i < header_.e_phnum; ++i) {
      Elf64_Phdr p;
      if (read(header_.e_phoff + i * sizeof p, &p) && p.p_type == type) return true;
    }
    return false;
  }
  [[nodiscard]] bool has_section(const char* name) const {
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
  [[nodiscard]] bool contains(const char* text) const {
    const std::string_view whole(bytes_.data(), bytes_.size());
    return whole.find(text) != std::string_view::npos;
  }

 private:
  template <class T>
  bool read(std::uint64_t at, T* out) const {
    if (at > bytes_.size() || bytes_.size() - at < sizeof(T)) return false;
    std::memcpy(out, bytes_.data() + at, sizeof(T));
    return true;
  }
  std::vector<char> bytes_;
  Elf64_Ehdr header_{};
  bool is_elf_ = false;
};

}  // namespace

std::string find_program(const std::string& program) {
  if (program.find('/') != std::string::npos)
    return ::access(program.c_str(), F_OK) == 0 ? program : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::optional<Refusal> preflight(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
      ::access(path.c_str(), X_OK) != 0)
    return Refusal{kExitNotExecutable, path + " is not an executable file (chmod +x?)"};
  if ((info.st_mode & (S_ISUID | S_ISGID)) != 0 && ::geteuid() != 0)
    return Refusal{kExitUnsuitable, path +
                                        " is setuid or setgid: the dynamic loader ignores "
                                        "LD_PRELOAD there, so it cannot be carried"};
  std::ifstream file(path, std::ios::binary);
  const ElfView elf(std::vector<char>(std::istreambuf_iterator<char>(file), {}));
  if (!elf.is_elf()) return std::nullopt;  // a script
  if (!elf.is_x86_64())
    return Refusal{kExitUnsuitable,
                   path + " is for another machine: only x86-64 programs can be carried"};
  if (!elf.has_segment(PT_INTERP))
    return Refusal{
        kExitUnsuitable,
        path + " is statically linked: nothing can be loaded into it; link it dynamically"};
  const bool has_own_runtime = elf.has_section(".nv_fatbin") && !elf.contains("libcudart.so.");
  if (has_own_runtime && !elf.has_section(".symtab"))
    return Refusal{kExitUnsuitable,
                   path +
                       " links the CUDA runtime statically and is stripped: its runtime cannot be "
                       "replaced; link with -cudart shared, or do not strip it"};
  return std::nullopt;
}

}  // namespace sluice::tool
