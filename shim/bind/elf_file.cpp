#include "shim/bind/elf_file.h"

#include "common/fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace sluice::bind {

Result<ElfFile> ElfFile::open(const char* path) {
  Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) return fail(system_error(path, errno));
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < sizeof(Elf64_Ehdr)) return fail(ErrorCode::kInvalidArgument, "too short for ELF");
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (memory == MAP_FAILED) return fail(system_error(path, errno));
  ElfFile file;
  file.bytes_ = {static_cast<const std::byte*>(memory), size};
  const auto* header = static_cast<const Elf64_Ehdr*>(memory);
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64 ||
      header->e_phentsize != sizeof(Elf64_Phdr))
    return fail(ErrorCode::kInvalidArgument, "no 64-bit x86-64 ELF file");
  file.segments_ = file.array<Elf64_Phdr>(header->e_phoff, header->e_phnum);
  if (header->e_shentsize == sizeof(Elf64_Shdr))
    file.sections_ = file.array<Elf64_Shdr>(header->e_shoff, header->e_shnum);
  if (header->e_shstrndx < file.sections_.size())
    file.section_names_ = file.text(file.sections_[header->e_shstrndx]);
  return file;
}

ElfFile::ElfFile(ElfFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})),
      segments_(other.segments_),
      sections_(other.sections_),
      section_names_(other.section_names_) {}

ElfFile::~ElfFile() {
  if (!bytes_.empty())
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());  // ours since open()
}

template <class T>
std::span<const T> ElfFile::array(std::uint64_t offset, std::uint64_t count) const {
  if (offset % alignof(T) != 0 || offset > bytes_.size() ||
      count > (bytes_.size() - offset) / sizeof(T))
    return {};
  return {reinterpret_cast<const T*>(bytes_.data() + offset), static_cast<std::size_t>(count)};
}

std::string_view ElfFile::text(const Elf64_Shdr& section) const {
  auto chars = array<char>(section.sh_offset, section.sh_size);
  // A table whose last string does not end is damaged.
  if (section.sh_type == SHT_NOBITS || chars.empty() || chars.back() != '\0') return {};
  return {chars.data(), chars.size()};
}

bool ElfFile::has_section(std::string_view name) const {
  for (const Elf64_Shdr& section : sections_)
    if (section.sh_name < section_names_.size() &&
        std::string_view(section_names_.data() + section.sh_name) == name)
      return true;
  return false;
}

ElfFile::Symbols ElfFile::symbols(std::uint32_t type) const {
  for (const Elf64_Shdr& section : sections_) {
    if (section.sh_type != type || section.sh_entsize != sizeof(Elf64_Sym) ||
        section.sh_link >= sections_.size())
      continue;
    return {array<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym)),
            text(sections_[section.sh_link])};
  }
  return {};
}

std::string_view ElfFile::Symbols::name(const Elf64_Sym& symbol) const {
  if (symbol.st_name >= names.size()) return {};
  return names.data() + symbol.st_name;  // text() saw the terminating zero
}

bool ElfFile::is_code(std::uint64_t address, std::uint64_t bytes) const {
  for (const Elf64_Phdr& segment : segments_)
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 && address >= segment.p_vaddr &&
        address - segment.p_vaddr <= segment.p_filesz &&
        bytes <= segment.p_filesz - (address - segment.p_vaddr))
      return true;
  return false;
}

}  // namespace sluice::bind
