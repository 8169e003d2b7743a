#include "shim/call_sites.h"

#include "common/format.h"

#include <dlfcn.h>
#include <execinfo.h>

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

std::string name_of(void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return format("{}", address);
  const char* slash = std::strrchr(info.dli_fname, '/');
  const char* object = slash != nullptr ? slash + 1 : info.dli_fname;
  const auto offset = [&](void* from) {
    return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(from);
  };
  if (info.dli_sname != nullptr)
    return format("{}({}+{:#x})", object, info.dli_sname, offset(info.dli_saddr));
  return format("{}(+{:#x})", object, offset(info.dli_fbase));
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
