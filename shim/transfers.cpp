#include "shim/transfers.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sluice::shim {
namespace {

/// A long device-to-host copy is asked for in pieces, so that the window can hold it back.
constexpr std::size_t kReadPieceBytes = 4 * 1024 * 1024;
/// Shorter copies travel in the pipeline: their bytes are still in the cache there, and a slot is
/// worth more to a long one. To memory that must be put and got, each copy pays a round trip more.
constexpr std::size_t kStagedBytesMin = 16 * 1024, kRemoteStagedBytesMin = 64 * 1024;
constexpr std::chrono::milliseconds kStagingPatience{20};
/// The same for lanes: a record and a system call more have to pay.
constexpr std::size_t kLaneBytesMin = 64 * 1024;
/// On a way of that round trip the usual window carries 3 GB/s.
constexpr std::chrono::milliseconds kShortWay{20};

}  // namespace

std::size_t Transfers::window_bytes() const {
  const auto way = pipeline_.round_trip_min();
  if (way == std::chrono::nanoseconds::max()) return wire::kCopyWindowBytes;
  const auto times = way / kShortWay;
  constexpr std::size_t kTimesMax = wire::kCopyWindowBytesMax / wire::kCopyWindowBytes;
  return wire::kCopyWindowBytes *
         std::clamp<std::size_t>(static_cast<std::size_t>(times), 1, kTimesMax);
}

CUresult Transfers::acquire(std::atomic<std::size_t>& under_way, std::size_t bytes) {
  const std::size_t window = window_bytes();
  std::size_t now = under_way.load();
  for (;;) {
    if (now == 0 || now + bytes <= window) {
      if (under_way.compare_exchange_weak(now, now + bytes)) break;
      continue;
    }
    const auto has_room = [&] {
      now = under_way.load();
      return now == 0 || now + bytes <= window;
    };
    if (const CUresult lost = pipeline_.wait_until(has_room)) return lost;
  }
  if (&under_way == &h2d_bytes_ && now <= kCreditWatchBytes && now + bytes > kCreditWatchBytes)
    pipeline_.expect();
  return CUDA_SUCCESS;
}

bool Transfers::takes_lane(std::size_t bytes) const {
  return lanes_.exist() && bytes >= kLaneBytesMin;
}

bool Transfers::is_staged(std::size_t bytes) const {
  return slots_.exist() && bytes >= (remote_ == nullptr ? kStagedBytesMin : kRemoteStagedBytesMin);
}

std::optional<std::uint64_t> Transfers::take_slot(std::size_t bytes, const SharedSeq& seq) {
  return is_staged(bytes) ? slots_.take(seq) : std::nullopt;
}

std::optional<std::uint64_t> Transfers::await_slot(std::size_t bytes, const SharedSeq& seq) {
  auto slot = take_slot(bytes, seq);
  if (slot || !is_staged(bytes) || is_staging_stuck_.load()) return slot;
  // They come back while the device copies. If they do not, they wait behind work that may wait for
  // this thread.
  const auto until = Clock::now() + kStagingPatience;
  const auto is_over = [&] {
    if (!slot) slot = slots_.take(seq);
    return slot || Clock::now() >= until;
  };
  static_cast<void>(pipeline_.wait_until(is_over));  // a loss shows when the piece is posted
  if (!slot) is_staging_stuck_ = true;
  return slot;
}

CUresult Transfers::read(const Read& read, bool waits) {
  std::uint64_t id = 0;
  {
    std::lock_guard lock(mutex_);
    id = ++last_id_;
    Transfer& transfer = transfers_[id];
    transfer.destination = read.destination;
    transfer.bytes = read.bytes;
    transfer.is_waited_for = waits;
  }
  if (!waits) {
    unwaited_.fetch_add(1);
    pipeline_.expect();
  }
  CUresult result = request_pieces(id, read);
  if (!waits) return result;
  if (result == CUDA_SUCCESS) result = pipeline_.wait_until([&] { return is_done(id); });
  // After a loss the reader may still be copying: it does so under the mutex, and afterwards finds
  // the transfer gone.
  std::lock_guard lock(mutex_);
  const auto at = transfers_.find(id);
  if (at == transfers_.end()) return result;
  if (at->second.is_done) result = at->second.result;
  transfers_.erase(at);
  return result;
}

std::uint64_t Transfers::announce(std::byte* destination, std::size_t bytes) {
  std::uint64_t id = 0;
  {
    std::lock_guard lock(mutex_);
    id = ++last_id_;
    Transfer& transfer = transfers_[id];
    transfer.destination = destination;
    transfer.bytes = transfer.requested = bytes;
    transfer.is_windowed = false;
  }
  unwaited_.fetch_add(1);
  pipeline_.expect();
  return id;
}

void Transfers::fail_announced(std::uint64_t id, CUresult result) {
  std::lock_guard lock(mutex_);
  const auto at = transfers_.find(id);
  if (at != transfers_.end()) finish(id, at->second, result);
}

CUresult Transfers::request_pieces(std::uint64_t id, const Read& read) {
  for (std::size_t offset = 0; offset < read.bytes;) {
    const auto seq = std::make_shared<std::atomic<std::uint64_t>>(0);
    const std::size_t left = read.bytes - offset;
    const bool by_lane = takes_lane(left);
    const auto slot = await_slot(std::min(left, StagingSlots::kSlotBytes), seq);
    const std::size_t bytes = std::min(left, by_lane ? BulkLanes::kPieceBytes
                                             : slot  ? StagingSlots::kSlotBytes
                                                     : kReadPieceBytes);
    CUresult result = acquire(d2h_bytes_, bytes);
    bool is_over = false;
    if (result == CUDA_SUCCESS) {
      std::lock_guard lock(mutex_);
      const auto at = transfers_.find(id);
      // If the first pieces failed, the rest would too.
      is_over = at == transfers_.end() || at->second.is_done;
      if (is_over) {
        d2h_bytes_.fetch_sub(bytes);
      } else {
        at->second.requested += bytes;
        at->second.piece_seqs.push_back(seq);
      }
    }
    if (slot && (result != CUDA_SUCCESS || is_over)) static_cast<void>(slots_.give_back(*slot));
    if (result != CUDA_SUCCESS || is_over) return result;
    result = post_read(read, id, offset, bytes, by_lane ? lanes_.next() : slot, seq);
    if (result != CUDA_SUCCESS) return result;
    offset += bytes;
  }
  return CUDA_SUCCESS;
}

CUresult Transfers::post_read(const Read& read, std::uint64_t id, std::size_t offset,
                              std::size_t bytes, std::optional<std::uint64_t> slot,
                              const SharedSeq& seq) {
  const auto post = [&](auto& args) {
    args.src = read.source + offset;
    args.stream = read.stream;
    args.bytes = bytes;
    args.transfer = id;
    args.offset = offset;
    return pipeline_.post({.opcode = args.kOpcode,
                           .context = read.context,
                           .fixed = detail::as_bytes(args),
                           .blobs = {},
                           .seq = seq.get()});
  };
  if (!slot) {
    wire::copy_d2h args{};
    return post(args);
  }
  wire::copy_d2h_staged args{};
  args.staging = *slot;
  const CUresult result = post(args);
  pipeline_.flush();
  return result;
}

bool Transfers::is_done(std::uint64_t id) const {
  std::lock_guard lock(mutex_);
  const auto at = transfers_.find(id);
  return at == transfers_.end() || at->second.is_done;
}

bool Transfers::touches(const std::byte* address, std::size_t bytes) const {
  std::lock_guard lock(mutex_);
  return std::any_of(transfers_.begin(), transfers_.end(), [&](const auto& item) {
    const Transfer& transfer = item.second;
    return !transfer.is_done && address < transfer.destination + transfer.bytes &&
           transfer.destination < address + bytes;
  });
}

CUresult Transfers::settle(const void* address, std::size_t bytes) {
  const auto* start = static_cast<const std::byte*>(address);
  if (unwaited_.load() == 0 || !touches(start, bytes)) return CUDA_SUCCESS;
  return pipeline_.wait_until([&] { return !touches(start, bytes); });
}

void Transfers::finish(std::uint64_t id, Transfer& transfer, CUresult result) {
  // What a failed transfer still had under way never comes as data.
  if (transfer.is_windowed) d2h_bytes_.fetch_sub(transfer.requested - transfer.received);
  transfer.is_done = true;
  transfer.result = result;
  if (transfer.is_waited_for) return;
  if (result != CUDA_SUCCESS) deferred_.note(result);
  transfers_.erase(id);
  unwaited_.fetch_sub(1);
  pipeline_.fulfilled();
}

}  // namespace sluice::shim
