#include "shim/call_sites.h"

#include "common/format.h"
#include "shim/bind/elf_file.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/auxv.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace sluice::shim {
namespace {

constexpr int kFramesMax = 24;
std::atomic<bool> g_is_enabled{false};

struct Waits {
  std::uint64_t count = 0, waited_ns = 0;
};
struct Table {
  std::mutex mutex;
  std::map<std::pair<wire::Fn, void*>, Waits> waits;
};
Table& table() {
  static Table* const all = new Table;  // calls come until the very end
  return *all;
}

/// The driver's and the runtime's own frames are not where the program waits.
bool is_ours(void* address) {
  Dl_info self{};
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&is_ours), &self) == 0 || ::dladdr(address, &info) == 0)
    return false;
  if (info.dli_fbase == self.dli_fbase) return true;
  const char* slash = info.dli_fname != nullptr ? std::strrchr(info.dli_fname, '/') : nullptr;
  const char* name = slash != nullptr ? slash + 1 : info.dli_fname;
  return name != nullptr &&
         (std::strncmp(name, "libcudart", 9) == 0 || std::strncmp(name, "libsluice", 9) == 0);
}

std::string readable(const std::string& symbol) {
  int status = 0;
  char* text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string out = status == 0 && text != nullptr ? text : symbol;
  std::free(text);
  return out;
}

std::string place(const char* object, const std::string& symbol, std::uintptr_t offset) {
  return format("{}({}+{:#x})", object, readable(symbol), offset);
}

/// The loader knows exported functions only; the file's own table has all, unless it was stripped.
std::string place_in_file(const Dl_info& info, const char* object, std::uintptr_t address) {
  const auto base = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  // The program's own name is what it was started as, which may lead nowhere by now.
  Dl_info program{};
  const bool is_program = ::dladdr(reinterpret_cast<void*>(::getauxval(AT_ENTRY)), &program) != 0 &&
                          program.dli_fbase == info.dli_fbase;
  const auto file = bind::ElfFile::open(is_program ? "/proc/self/exe" : info.dli_fname);
  if (!file) return format("{}(+{:#x})", object, address - base);
  // Addresses in the file count from its first segment, which may be elsewhere than at 0.
  std::uint64_t first = 0;
  for (const Elf64_Phdr& segment : file->segments())
    if (segment.p_type == PT_LOAD) {
      first = segment.p_vaddr - segment.p_vaddr % 4096;
      break;
    }
  const std::uint64_t wanted = address - base + first;
  const auto symbols = file->symbols(SHT_SYMTAB);
  for (const Elf64_Sym& symbol : symbols.table)
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
        wanted >= symbol.st_value && wanted - symbol.st_value < symbol.st_size)
      return place(object, std::string(symbols.name(symbol)), wanted - symbol.st_value);
  return format("{}(+{:#x})", object, address - base);
}

std::string name_of(void* pointer) {
  Dl_info info{};
  if (::dladdr(pointer, &info) == 0 || info.dli_fname == nullptr) return format("{}", pointer);
  const char* slash = std::strrchr(info.dli_fname, '/');
  const char* object = slash != nullptr ? slash + 1 : info.dli_fname;
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (info.dli_sname != nullptr)
    return place(object, info.dli_sname,
                 address - reinterpret_cast<std::uintptr_t>(info.dli_saddr));
  return place_in_file(info, object, address);
}

}  // namespace

void enable_call_sites() noexcept {
  g_is_enabled = true;
}

void note_call_site(wire::Fn fn, std::uint64_t waited_ns) noexcept {
  if (!g_is_enabled.load(std::memory_order_relaxed)) return;
  void* frames[kFramesMax];
  const int count = ::backtrace(frames, kFramesMax);
  void* site = nullptr;
  for (int i = 0; i < count && site == nullptr; ++i)
    if (!is_ours(frames[i])) site = frames[i];
  std::lock_guard lock(table().mutex);
  Waits& waits = table().waits[{fn, site}];
  ++waits.count;
  waits.waited_ns += waited_ns;
}

std::vector<CallSite> worst_call_sites(std::size_t count) {
  std::vector<CallSite> sites;
  std::lock_guard lock(table().mutex);
  for (const auto& [where, waits] : table().waits)
    sites.push_back({where.first, name_of(where.second), waits.count, waits.waited_ns});
  std::sort(sites.begin(), sites.end(),
            [](const CallSite& a, const CallSite& b) { return a.waited_ns > b.waited_ns; });
  if (sites.size() > count) sites.resize(count);
  return sites;
}

}  // namespace sluice::shim
