#include "shim/shadows.h"

#include "common/log.h"
#include "protocol/managed.h"
#include "protocol/runs.h"
#include "shim/decode.h"
#include "shim/process.h"

#include <sys/mman.h>
#include <unistd.h>

#include <vector>

namespace sluice::shim {
namespace {

constexpr std::size_t kNoticeBytes = std::size_t{256} << 20;

template <class Map>
auto containing(const Map& map, typename Map::key_type address) {
  auto at = map.upper_bound(address);
  return at == map.begin() ? map.end() : std::prev(at);
}

}  // namespace

void* map_shared_address(std::size_t bytes) noexcept {
  // Far from where programs, libraries and the driver have their memory.
#ifdef __SANITIZE_THREAD__
  constexpr std::uintptr_t kFirst = 0x5500'0000'0000;  // it allows no program memory at the other
#else
  constexpr std::uintptr_t kFirst = 0x4000'0000'0000;
#endif
  constexpr std::size_t kSpacing = std::size_t{2} << 20;
  static constinit std::atomic<std::uintptr_t> next{kFirst};
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t whole = (bytes + page - 1) / page * page;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const std::size_t step = (whole + 2 * kSpacing - 1) / kSpacing * kSpacing;
    const std::uintptr_t at = next.fetch_add(step);
    void* memory = ::mmap(reinterpret_cast<void*>(at), whole, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == reinterpret_cast<void*>(at)) return memory;
    if (memory != MAP_FAILED) ::munmap(memory, whole);
  }
  void* memory = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory != MAP_FAILED ? memory : nullptr;
}

CUresult Shadows::create(void* host, std::size_t bytes, bool is_same_address) {
  {
    std::lock_guard lock(mutex_);
    if (ranges_.contains(reinterpret_cast<std::uintptr_t>(host))) return CUDA_SUCCESS;
  }
  ZeroMemory last(bytes);
  if (last.data() == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  wire::shadow_create args{};
  args.range = reserve_id();
  args.address = is_same_address ? reinterpret_cast<std::uintptr_t>(host) : 0;
  args.bytes = bytes;
  wire::shadow_create::Reply reply{};
  if (const CUresult failed = call(args, reply)) {
    SLUICE_LOG_WARN("shim", "Host memory at {} cannot be shared with kernels: {}", host,
                    static_cast<int>(failed));
    return failed;
  }
  if (bytes > kNoticeBytes)
    SLUICE_LOG_WARN("shim",
                    "{} MiB of host memory are shared with kernels: every launch and every wait "
                    "compares them",
                    bytes >> 20);
  std::lock_guard lock(mutex_);
  Range range{.id = args.range,
              .host = static_cast<std::byte*>(host),
              .bytes = bytes,
              .device = reply.device,
              .context = current_context_id(),
              .last = std::move(last)};
  by_device_[range.device] = reinterpret_cast<std::uintptr_t>(host);
  ranges_.emplace(reinterpret_cast<std::uintptr_t>(host), std::move(range));
  count_ = ranges_.size();
  return CUDA_SUCCESS;
}

CUdeviceptr Shadows::device_address(const void* host) const {
  if (!is_any()) return 0;
  std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<std::uintptr_t>(host);
  const auto at = containing(ranges_, address);
  if (at == ranges_.end() || address - at->first >= at->second.bytes) return 0;
  return at->second.device + (address - at->first);
}

void* Shadows::host_address(CUdeviceptr device) const {
  if (!is_any()) return nullptr;
  std::lock_guard lock(mutex_);
  const auto at = containing(by_device_, device);
  if (at == by_device_.end()) return nullptr;
  const Range& range = ranges_.at(at->second);
  return device - at->first < range.bytes ? range.host + (device - at->first) : nullptr;
}

void Shadows::remove(void* host) {
  wire::shadow_free args{};
  std::uint32_t context = 0;
  {
    std::lock_guard lock(mutex_);
    const auto at = ranges_.find(reinterpret_cast<std::uintptr_t>(host));
    if (at == ranges_.end()) return;
    args.range = at->second.id;
    context = at->second.context;
    by_device_.erase(at->second.device);
    ranges_.erase(at);
    count_ = ranges_.size();
  }
  pipeline_.post(
      {.opcode = args.kOpcode, .context = context, .fixed = detail::as_bytes(args), .blobs = {}});
}

CUresult Shadows::look_through(Bytes params) {
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= params.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, params.data() + at, sizeof word);
    const auto pinned = addresses_.allocated_host(word);
    if (!pinned) continue;
    if (const CUresult failed = create(reinterpret_cast<void*>(pinned->base), pinned->bytes, true))
      return failed;
  }
  return CUDA_SUCCESS;
}

CUresult Shadows::upload() {
  if (!is_any()) return CUDA_SUCCESS;
  struct Piece {
    std::uint64_t range = 0;
    std::uint32_t context = 0;
    std::vector<std::byte> runs;
  };
  // Nobody's work overtakes what another thread has found; and the reader, which takes mutex_, is
  // not held up while we send.
  std::lock_guard uploading(upload_mutex_);
  std::vector<Piece> pieces;
  {
    std::lock_guard lock(mutex_);
    for (auto& [address, range] : ranges_)
      wire::send_differences(range.host, range.last.data(), range.bytes, [&](Bytes runs) {
        pieces.push_back({range.id, range.context, {runs.begin(), runs.end()}});
      });
  }
  for (const Piece& piece : pieces) {
    wire::shadow_write args{};
    args.range = piece.range;
    args.runs_bytes = piece.runs.size();
    const CUresult lost = pipeline_.post({.opcode = args.kOpcode,
                                          .context = piece.context,
                                          .fixed = detail::as_bytes(args),
                                          .blobs = {Bytes(piece.runs)}});
    if (lost != CUDA_SUCCESS) return lost;
  }
  return CUDA_SUCCESS;
}

Status Shadows::on_data(Bytes body) {
  SLUICE_TRY(const auto push, decode<wire::shadow_data>(body));
  std::lock_guard lock(mutex_);
  for (auto& [address, range] : ranges_) {
    if (range.id != push.fixed.range) continue;
    const bool is_whole =
        wire::for_each_run(push.blobs[0], range.bytes, [&](std::size_t at, Bytes data) {
          std::memcpy(range.host + at, data.data(), data.size());
          std::memcpy(range.last.data() + at, data.data(), data.size());
        });
    if (!is_whole) return fail(ErrorCode::kProtocol, "changes beyond a shadow range");
  }
  return {};  // of a range that was freed meanwhile
}

}  // namespace sluice::shim
