#include "server/worker/staging.h"

namespace sluice::server {

std::size_t StagingPool::size_class(std::size_t bytes) {
  std::size_t found = 0;
  while (found + 1 < kPieceBytes.size() && kPieceBytes[found] < bytes) ++found;
  return found;
}

std::byte* StagingPool::take(CUcontext context, std::size_t bytes) {
  if (bytes > kBlockBytes || driver_.cuMemHostAlloc == nullptr) return nullptr;
  const std::size_t wanted = size_class(bytes);
  const std::lock_guard lock(mutex_);
  PerContext& own = contexts_[context];
  std::vector<std::byte*>& idle = own.idle[wanted];
  if (idle.empty()) {
    if (blocks_ >= kBlocksMax) return nullptr;
    void* memory = nullptr;
    if (driver_.cuMemHostAlloc(&memory, kBlockBytes, CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS)
      return nullptr;
    ++blocks_;
    ++own.blocks;
    auto* block = static_cast<std::byte*>(memory);
    for (std::size_t at = kBlockBytes; at >= kPieceBytes[wanted]; at -= kPieceBytes[wanted])
      idle.push_back(block + at - kPieceBytes[wanted]);
  }
  std::byte* piece = idle.back();
  idle.pop_back();
  return piece;
}

void StagingPool::give_back(CUcontext context, std::byte* piece, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(context);
  if (found != contexts_.end()) found->second.idle[size_class(bytes)].push_back(piece);
}

void StagingPool::forget(CUcontext context) {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return;
  blocks_ -= found->second.blocks;
  contexts_.erase(found);
}

}  // namespace sluice::server
