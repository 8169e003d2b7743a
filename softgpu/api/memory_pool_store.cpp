#include "softgpu/api/memory_pool.h"

#include <algorithm>

namespace sluice::softgpu {
namespace {

constexpr std::size_t kStepBytes = 512;

/// Makes what the stream gets from now on wait for `before`.
void order_behind(const std::shared_ptr<Stream>& stream, const OperationPtr& before) {
  const std::lock_guard lock(stream->context->mutex);
  auto gate = std::make_shared<Operation>();
  gate->work = [] { return CUDA_SUCCESS; };
  const std::vector<OperationPtr> both = {stream->last, before};
  stream->last = gate;
  schedule(gate, both);
}

/// Destroyed by the program while something was still allocated.
struct Dying {
  std::mutex mutex;
  std::vector<std::shared_ptr<MemoryPool>> pools;
};
Dying& dying() {
  static auto* instance = new Dying;
  return *instance;
}

}  // namespace

MemoryPool::MemoryPool(Device* device, std::size_t bytes_max)
    : device_(device), bytes_max_(bytes_max == 0 ? SIZE_MAX : bytes_max) {}

MemoryPool::~MemoryPool() {
  for (const Free& f : free_) device_->arena->free(f.address);
}

/// Best fit; a block of more than twice the size is left for others.
std::optional<MemoryPool::Free> MemoryPool::take_free(std::size_t bytes, std::uint64_t stream,
                                                      bool in_need) {
  auto best = free_.end();
  for (auto f = free_.begin(); f != free_.end(); ++f) {
    const bool fits = f->capacity >= bytes && f->capacity / 2 <= bytes;
    const bool may = f->stream == stream || (allow_opportunistic != 0 && is_done(f->freed)) ||
                     (in_need && allow_internal_dependencies != 0);
    if (fits && may && (best == free_.end() || f->capacity < best->capacity)) best = f;
  }
  if (best == free_.end()) return std::nullopt;
  Free out = std::move(*best);
  free_.erase(best);
  return out;
}

std::optional<std::uint64_t> MemoryPool::grow(std::size_t bytes) {
  if (bytes > bytes_max_ || figures_.reserved > bytes_max_ - bytes) return std::nullopt;
  const auto at = device_->arena->allocate(bytes, nullptr);
  if (at) {
    figures_.reserved += bytes;
    figures_.reserved_high = std::max(figures_.reserved_high, figures_.reserved);
  }
  return at;
}

void MemoryPool::release_done(std::size_t keep_bytes) {
  std::erase_if(free_, [&](const Free& f) {
    if (figures_.reserved <= keep_bytes || !is_done(f.freed)) return false;
    device_->arena->free(f.address);
    figures_.reserved -= f.capacity;
    return true;
  });
}

CUresult MemoryPool::allocate(std::size_t bytes, const std::shared_ptr<Stream>& stream,
                              CUdeviceptr* out) {
  const std::size_t capacity = (bytes + kStepBytes - 1) / kStepBytes * kStepBytes;
  if (capacity < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  OperationPtr wait_first;
  {
    const std::lock_guard lock(mutex_);
    Free place{0, capacity, 0, nullptr};
    if (const auto known = take_free(capacity, stream->id, false)) {
      place = *known;
    } else {
      auto at = grow(capacity);
      if (!at) {
        release_done(0);
        at = grow(capacity);
      }
      if (at) {
        place.address = *at;
      } else if (const auto pending = take_free(capacity, stream->id, true)) {
        place = *pending;
        wait_first = pending->freed;
      } else {
        return CUDA_ERROR_OUT_OF_MEMORY;
      }
    }
    used_[place.address] = place.capacity;
    figures_.used += place.capacity;
    figures_.used_high = std::max(figures_.used_high, figures_.used);
    *out = place.address;
  }
  if (wait_first != nullptr) order_behind(stream, wait_first);
  return CUDA_SUCCESS;
}

CUresult MemoryPool::free_in(CUdeviceptr p, const std::shared_ptr<Stream>& stream) {
  if (!owns(p)) return CUDA_ERROR_INVALID_VALUE;
  OperationPtr freed;
  SOFTGPU_CHECK(submit(
      stream, [] { return CUDA_SUCCESS; }, &freed, true));
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(p);
  if (found == used_.end()) return CUDA_ERROR_INVALID_VALUE;
  figures_.used -= found->second;
  free_.push_back({p, found->second, stream->id, std::move(freed)});
  used_.erase(found);
  return CUDA_SUCCESS;
}

bool MemoryPool::free_now(CUdeviceptr p) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(p);
  if (found == used_.end()) return false;
  figures_.used -= found->second;
  free_.push_back({p, found->second, 0, nullptr});
  used_.erase(found);
  release_done(release_threshold_bytes);
  return true;
}

bool MemoryPool::owns(CUdeviceptr p) {
  const std::lock_guard lock(mutex_);
  return used_.contains(p);
}

void MemoryPool::trim(std::size_t keep_bytes) {
  const std::lock_guard lock(mutex_);
  release_done(keep_bytes);
}

bool MemoryPool::is_empty() {
  const std::lock_guard lock(mutex_);
  return used_.empty() &&
         std::all_of(free_.begin(), free_.end(), [](const Free& f) { return is_done(f.freed); });
}

MemoryPool::Figures MemoryPool::figures() {
  const std::lock_guard lock(mutex_);
  return figures_;
}

void MemoryPool::reset_high(bool of_used) {
  const std::lock_guard lock(mutex_);
  if (of_used)
    figures_.used_high = figures_.used;
  else
    figures_.reserved_high = figures_.reserved;
}

std::shared_ptr<MemoryPool> pool_of(CUdeviceptr p) {
  for (auto& pool : state().pools.all())
    if (pool->owns(p)) return pool;
  const std::lock_guard lock(dying().mutex);
  for (auto& pool : dying().pools)
    if (pool->owns(p)) return pool;
  return nullptr;
}

void trim_pools() {
  for (const auto& pool : state().pools.all()) pool->trim(pool->release_threshold_bytes);
  const std::lock_guard lock(dying().mutex);
  std::erase_if(dying().pools, [](const auto& pool) { return pool->is_empty(); });
}

void keep_until_empty(std::shared_ptr<MemoryPool> pool) {
  const std::lock_guard lock(dying().mutex);
  dying().pools.push_back(std::move(pool));
}

}  // namespace sluice::softgpu
