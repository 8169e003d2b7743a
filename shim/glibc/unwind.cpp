// _dl_find_object, which glibc has since 2.35: how libgcc's unwinder finds the tables of the code
// at an address. Without it, in a library that must load on 2.28, an exception would find no
// handler.
#include <dlfcn.h>
#include <link.h>

#include <cstdint>

namespace {

struct Search {
  std::uintptr_t address;
  dl_find_object* result;
};

/// For one object: does it hold the address, and where are its tables?
int look_at(dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  std::uintptr_t first = UINTPTR_MAX;
  std::uintptr_t end = 0;
  std::uintptr_t tables = 0;
  bool is_inside = false;
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const std::uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_GNU_EH_FRAME) tables = start;
    if (segment.p_type != PT_LOAD) continue;
    if (start < first) first = start;
    if (start + segment.p_memsz > end) end = start + segment.p_memsz;
    if (search->address >= start && search->address - start < segment.p_memsz) is_inside = true;
  }
  if (!is_inside) return 0;
  *search->result = {};
  search->result->dlfo_map_start = reinterpret_cast<void*>(first);
  search->result->dlfo_map_end = reinterpret_cast<void*>(end);
  search->result->dlfo_eh_frame = reinterpret_cast<void*>(tables);
  return tables != 0 ? 1 : -1;  // either way, no other object holds the address
}

}  // namespace

extern "C" __attribute__((visibility("hidden"), used)) int _dl_find_object(
    void* address, dl_find_object* result) noexcept {
  Search search{reinterpret_cast<std::uintptr_t>(address), result};
  return ::dl_iterate_phdr(&look_at, &search) == 1 ? 0 : -1;
}
