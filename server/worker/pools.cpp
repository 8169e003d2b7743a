#include "server/worker/pools.h"

#include <algorithm>

namespace sluice::server {

void PoolCharges::add(CUmemoryPool pool, std::uint32_t device) {
  const std::lock_guard lock(mutex_);
  pools_.try_emplace(pool, Pool{device, 0, 0});
}

void PoolCharges::remove(CUmemoryPool pool) {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(pool);
  if (found == pools_.end()) return;
  ledger_.refund(found->second.device, found->second.cached_bytes);
  pools_.erase(found);
}

std::uint64_t PoolCharges::shrink(CUmemoryPool handle, Pool& pool, std::uint64_t cached_bytes) {
  if (pool.cached_bytes <= cached_bytes) return 0;
  // The driver keeps as much as it is told to; what is in use counts.
  cuuint64_t used = 0;
  driver_.cuMemPoolGetAttribute(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
  if (driver_.cuMemPoolTrimTo(handle, used + cached_bytes) != CUDA_SUCCESS) return 0;
  const std::uint64_t refund = pool.cached_bytes - cached_bytes;
  pool.cached_bytes = cached_bytes;
  ledger_.refund(pool.device, refund);
  return refund;
}

bool PoolCharges::release_locked(std::uint32_t device) {
  std::uint64_t refunded = 0;
  for (auto& [handle, pool] : pools_)
    if (pool.device == device) refunded += shrink(handle, pool, 0);
  return refunded > 0;
}

bool PoolCharges::release(std::uint32_t device) {
  const std::lock_guard lock(mutex_);
  return release_locked(device);
}

bool PoolCharges::charge(CUmemoryPool handle, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(handle);
  if (found == pools_.end()) return false;
  Pool& pool = found->second;
  const std::uint64_t from_cache = std::min(pool.cached_bytes, bytes);
  if (from_cache == bytes || ledger_.charge(pool.device, bytes - from_cache).is_granted) {
    pool.cached_bytes -= from_cache;
    return true;
  }
  return release_locked(pool.device) && ledger_.charge(pool.device, bytes).is_granted;
}

void PoolCharges::freed(CUmemoryPool handle, std::uint32_t device, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(handle);
  if (found == pools_.end()) return ledger_.refund(device, bytes);  // the pool was destroyed
  found->second.cached_bytes += bytes;
  shrink(handle, found->second, found->second.threshold_bytes);
}

void PoolCharges::undo(CUmemoryPool handle, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const auto found = pools_.find(handle); found != pools_.end())
    ledger_.refund(found->second.device, bytes);
}

CUresult PoolCharges::trim(CUmemoryPool handle, std::uint64_t keep_bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(handle);
  if (found == pools_.end()) return CUDA_ERROR_INVALID_VALUE;
  cuuint64_t used = 0;
  driver_.cuMemPoolGetAttribute(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
  shrink(handle, found->second, keep_bytes > used ? keep_bytes - used : 0);
  return CUDA_SUCCESS;
}

void PoolCharges::set_threshold(CUmemoryPool handle, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const auto found = pools_.find(handle); found != pools_.end())
    found->second.threshold_bytes = bytes;
}

std::uint64_t PoolCharges::threshold(CUmemoryPool handle) {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(handle);
  return found != pools_.end() ? found->second.threshold_bytes : 0;
}

}  // namespace sluice::server
