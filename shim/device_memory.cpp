#include "shim/device_memory.h"

#include "protocol/block_use.h"
#include "protocol/memory.h"
#include "shim/devices.h"
#include "shim/process.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sluice::shim {
namespace {

constexpr std::size_t kKeptBytesMax = std::size_t{1} << 30;
/// A driver's addresses have no room for more.
constexpr std::size_t kAllocationBytesMax = std::size_t{1} << 47;

/// About memory only: no work for the device.
template <class Args>
void post_quietly(Pipeline& pipeline, const Args& args) {
  static_cast<void>(pipeline.post({.opcode = Args::kOpcode,
                                   .context = 0,
                                   .fixed = detail::as_bytes(args),
                                   .blobs = {},
                                   .is_work = false}));
}

/// No use: an allocation of the program's own.
using Use = std::optional<wire::BlockUse>;

template <class Args>
CUresult ask_worker(const Args& args, CUdeviceptr* out) {
  typename Args::Reply reply{};
  const CUresult result = call(args, reply);
  *out = reply.dptr;
  return result;
}

CUresult ask_worker(std::size_t bytes, Use use, CUdeviceptr* out) {
  if (!use) {
    wire::cuMemAlloc_v2 args{};
    args.bytesize = bytes;
    return ask_worker(args, out);
  }
  wire::memory_block args{};
  args.bytes = bytes;
  args.use = static_cast<std::uint32_t>(*use);
  return ask_worker(args, out);
}

/// Of a block in the arena.
Use use_of(std::size_t bytes, DeviceMemory::Order order) {
  if (bytes <= Arena::kSmallBytesMax) return wire::BlockUse::kSlab;
  return order ? Use(wire::BlockUse::kPool) : std::nullopt;
}

}  // namespace

bool DeviceMemory::uses_arena() const {
  return pipeline_.optimisations().arena && !pipeline_.is_strict();
}

Arena& DeviceMemory::arena_of(const Context& context) {
  const auto found = arenas_.find(&context);
  if (found != arenas_.end()) return found->second;
  // So much of the slice that others of the tenant do not miss it.
  const std::size_t slice_bytes = devices_.record(context.device).total_bytes;
  return arenas_.try_emplace(&context, std::min(slice_bytes / 4, kKeptBytesMax)).first->second;
}

std::optional<CUdeviceptr> DeviceMemory::take(const Context& context, std::size_t bytes,
                                              Order order) {
  const std::lock_guard lock(mutex_);
  Arena& arena = arena_of(context);
  arena.complete(completed_.load());
  return arena.take(bytes, order);
}

/// From what was freed and perhaps can be used again by now. Whoever frees memory that is in use
/// waits for the device in CUDA; here it is whoever wants that memory again, but in no stream's
/// order.
std::optional<CUdeviceptr> DeviceMemory::take_late(const Context& context, std::size_t bytes,
                                                   Order order) {
  bool is_worth_it = false;
  std::uint64_t busy_until = 0;
  const auto look = [&] {
    const std::lock_guard lock(mutex_);
    is_worth_it = arena_of(context).is_waited_for(bytes);
    busy_until = arena_of(context).busy_until();
  };
  look();
  if (busy_until == 0) return std::nullopt;
  pipeline_.poll();
  if (const auto address = take(context, bytes, order)) return address;
  look();
  if (order) ask_for_completion(busy_until);  // for the next
  if (order || !is_worth_it || await_frees(context) != CUDA_SUCCESS) return std::nullopt;
  return take(context, bytes, order);
}

CUresult DeviceMemory::allocate(const Context& context, std::size_t bytes, CUdeviceptr* out,
                                Order order) {
  if (bytes > kAllocationBytesMax) return CUDA_ERROR_OUT_OF_MEMORY;
  uses_.fetch_add(1, std::memory_order_relaxed);
  if (!uses_arena()) return allocate_whole(context, bytes, out, order);
  auto address = take(context, bytes, order);
  if (!address) address = take_late(context, bytes, order);
  if (!address) return allocate_new(context, bytes, out, order);
  *out = *address;
  tell_spare(context);
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::allocate_new(const Context& context, std::size_t bytes, CUdeviceptr* out,
                                    Order order) {
  CUdeviceptr block = 0;
  const Use use = use_of(bytes, order);
  CUresult result = ask_worker(Arena::block_bytes(bytes), use, &block);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    give_back_spare();
    if (const auto address = take(context, bytes, {})) {
      *out = *address;
      return CUDA_SUCCESS;
    }
    result = ask_worker(Arena::block_bytes(bytes), use, &block);
  }
  // The last of the slice may be less than a block.
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return allocate_whole(context, bytes, out, order);
  if (result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(mutex_);
  *out = arena_of(context).take_from(block, bytes);
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::allocate_whole(const Context& context, std::size_t bytes, CUdeviceptr* out,
                                      Order order) {
  const std::size_t whole = Slabs::in_units(bytes);
  const Use use = order ? Use(wire::BlockUse::kPool) : std::nullopt;
  if (const CUresult failed = ask_worker(whole, use, out)) return failed;
  const std::lock_guard lock(mutex_);
  arena_of(context).take_whole(*out, whole);
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::free(const Context& context, CUdeviceptr address, Order order) {
  uses_.fetch_add(1, std::memory_order_relaxed);
  bool is_kept = false;
  std::uint64_t busy_until = 0;
  {
    const std::lock_guard lock(mutex_);
    Arena& arena = arena_of(context);
    const std::uint64_t last = pipeline_.last_work_seq();
    if (last > completed_.load()) busy_until = last;
    is_kept = arena.free(address, busy_until, order);
    if (is_kept && arena.is_too_much()) {
      arena.complete(completed_.load());
      give_back_free(arena);
    }
  }
  if (!is_kept) {
    wire::cuMemFree_v2 args{};
    args.dptr = address;
    return post(args);
  }
  if (busy_until != 0 && !order) ask_for_completion(busy_until);
  tell_spare(context);
  pipeline_.expect_quiet();
  return CUDA_SUCCESS;
}

/// Nobody waits for the answer: whoever needs it looks for it. What lies behind a fence that is
/// under way is asked about later.
void DeviceMemory::ask_for_completion(std::uint64_t seq) {
  if (completed_.load() >= seq || is_fence_under_way_.exchange(true)) return;
  const wire::memory_fence args{};
  post_quietly(pipeline_, args);
}

CUresult DeviceMemory::await_frees(const Context& context) {
  std::uint64_t wanted = 0;
  {
    const std::lock_guard lock(mutex_);
    wanted = arena_of(context).busy_until();
  }
  while (completed_.load() < wanted) {
    ask_for_completion(wanted);
    const WaitScope waiting;
    if (const CUresult lost = pipeline_.wait_until(
            [&] { return completed_.load() >= wanted || !is_fence_under_way_.load(); }))
      return lost;
  }
  return CUDA_SUCCESS;
}

void DeviceMemory::completed(std::uint64_t seq) noexcept {
  std::uint64_t known = completed_.load();
  while (known < seq && !completed_.compare_exchange_weak(known, seq)) {
  }
}

void DeviceMemory::on_fence_done(std::uint64_t seq) noexcept {
  completed(seq);
  is_fence_under_way_ = false;
}

void DeviceMemory::forget(const Context& context) {
  const std::lock_guard lock(mutex_);
  arenas_.erase(&context);
}

std::size_t DeviceMemory::spare_bytes_of(std::uint32_t ordinal) const {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [context, arena] : arenas_)
    if (devices_.ordinal(context->device) == ordinal) sum += arena.spare_bytes();
  return sum;
}

/// Now and then, so that whoever looks from outside sees it soon; what is kept in the end goes back
/// in on_quiet().
void DeviceMemory::tell_spare(const Context& context) {
  constexpr std::int64_t kIntervalMs = 50;
  const std::int64_t now_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
          .count();
  std::int64_t told_ms = told_at_ms_.load(std::memory_order_relaxed);
  if (now_ms - told_ms < kIntervalMs || !told_at_ms_.compare_exchange_strong(told_ms, now_ms))
    return;
  wire::memory_spare args{};
  args.device = devices_.ordinal(context.device);
  args.bytes = spare_bytes_of(args.device);
  post_quietly(pipeline_, args);
}

/// With mutex_: whoever destroys a context makes it forget its arena first, so that no block of it
/// is given back behind its end.
bool DeviceMemory::give_back_free() {
  const std::lock_guard lock(mutex_);
  bool is_any = false;
  for (auto& [context, arena] : arenas_) {
    arena.complete(completed_.load());
    is_any |= give_back_free(arena);
  }
  return is_any;
}

bool DeviceMemory::give_back_free(Arena& arena) {
  const std::vector<CUdeviceptr> blocks = arena.take_out_free();
  for (const CUdeviceptr block : blocks) {
    wire::cuMemFree_v2 args{};
    args.dptr = block;
    post_quietly(pipeline_, args);
  }
  return !blocks.empty();
}

bool DeviceMemory::give_back_spare() {
  std::vector<const Context*> contexts;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [context, arena] : arenas_)
      if (arena.is_any_waiting()) contexts.push_back(context);
  }
  for (const Context* context : contexts)
    if (await_frees(*context) != CUDA_SUCCESS) return false;
  return give_back_free();
}

void DeviceMemory::on_recall() noexcept {
  is_recalled_ = true;
  pipeline_.expect_quiet(Pipeline::Quiet::kNow);
}

void DeviceMemory::on_quiet() noexcept {
  const bool is_recalled = is_recalled_.exchange(false);
  const std::uint64_t uses = uses_.load();
  const bool is_in_use = std::exchange(uses_before_quiet_, uses) != uses;
  if (is_in_use && !is_recalled) return pipeline_.expect_quiet();
  pipeline_.poll();
  give_back_free();
  if (is_recalled) {
    const wire::memory_recalled args{};
    post_quietly(pipeline_, args);
  }
  if (const std::uint64_t seq = busy_until(); seq != 0) {
    ask_for_completion(seq);
    pipeline_.expect_quiet();
  }
}

std::uint64_t DeviceMemory::busy_until() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t seq = 0;
  for (const auto& [context, arena] : arenas_) seq = std::max(seq, arena.busy_until());
  return seq;
}

}  // namespace sluice::shim
