// How many blocks of a kernel a multiprocessor holds: simple arithmetic over the limits that
// device.cpp reports.
#include "softgpu/api/state.h"

#include <algorithm>

using namespace sluice::softgpu;

namespace {

struct Limits {
  int threads, blocks, shared_bytes, threads_per_block, processors;
};

Limits limits() {
  const Device& device = *state().devices.front();
  bool is_known = false;
  const auto ask = [&](CUdevice_attribute attribute) {
    return device_attribute(device, attribute, &is_known);
  };
  return {ask(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
          ask(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
          ask(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
          ask(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
          ask(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)};
}

CUresult kernel_of(const void* handle, std::shared_ptr<Kernel>* out) {
  SOFTGPU_CHECK(initialised());
  *out = state().kernels.find(handle);
  return *out != nullptr ? check_owner((*out)->module->owner) : CUDA_ERROR_INVALID_HANDLE;
}

int active_blocks(const Kernel& kernel, int block_size, std::size_t dynamic_bytes) {
  const Limits limit = limits();
  const KernelInfo& info = kernel.info();
  if (block_size > limit.threads_per_block ||
      block_size > static_cast<int>(info.max_threads_per_block))
    return 0;
  if (dynamic_bytes > static_cast<std::size_t>(limit.shared_bytes)) return 0;
  const std::size_t shared_bytes = info.static_shared_bytes + dynamic_bytes;
  const int by_shared =
      shared_bytes == 0
          ? limit.blocks
          : static_cast<int>(static_cast<std::size_t>(limit.shared_bytes) / shared_bytes);
  constexpr int kWarp = 32;
  const int by_threads = limit.threads / ((block_size + kWarp - 1) / kWarp * kWarp);
  return std::min({by_threads, by_shared, limit.blocks});
}

}  // namespace

std::uint64_t sluice::softgpu::resident_blocks(const Kernel& kernel, unsigned block_threads,
                                               std::size_t dynamic_shared_bytes) {
  return static_cast<std::uint64_t>(
             active_blocks(kernel, static_cast<int>(block_threads), dynamic_shared_bytes)) *
         static_cast<std::uint64_t>(limits().processors);
}

SOFTGPU_API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction f,
                                                                 int block_size, size_t shared,
                                                                 unsigned int flags) {
  if (blocks == nullptr || block_size <= 0 ||
      (flags & ~static_cast<unsigned>(CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Kernel> kernel;
  SOFTGPU_CHECK(kernel_of(f, &kernel));
  *blocks = active_blocks(*kernel, block_size, shared);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction f, int block_size,
                                                        size_t shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, block_size, shared, 0);
}

SOFTGPU_API cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction f,
                                                      CUoccupancyB2DSize shared_of_block,
                                                      size_t shared, int block_size_max,
                                                      unsigned int) {
  if (grid == nullptr || block == nullptr || block_size_max < 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Kernel> kernel;
  SOFTGPU_CHECK(kernel_of(f, &kernel));
  const Limits limit = limits();
  const int most = std::min(block_size_max > 0 ? block_size_max : limit.threads_per_block,
                            static_cast<int>(kernel->info().max_threads_per_block));
  int best_threads = 0;
  // Largest first, so that of equal occupancies the largest block wins.
  for (int size = most; size > 0; size = (size - 1) / 32 * 32) {
    const int blocks =
        active_blocks(*kernel, size, shared_of_block != nullptr ? shared_of_block(size) : shared);
    if (blocks * size <= best_threads) continue;
    best_threads = blocks * size;
    *block = size;
    *grid = blocks * limit.processors;
  }
  return best_threads > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTGPU_API cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction f,
                                             CUoccupancyB2DSize shared_of_block, size_t shared,
                                             int block_size_max) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, shared_of_block, shared,
                                                   block_size_max, 0);
}

SOFTGPU_API cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction f, int blocks,
                                                    int block_size) {
  if (bytes == nullptr || blocks <= 0 || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Kernel> kernel;
  SOFTGPU_CHECK(kernel_of(f, &kernel));
  if (active_blocks(*kernel, block_size, 0) < blocks) return CUDA_ERROR_INVALID_VALUE;
  const auto each = static_cast<std::size_t>(limits().shared_bytes / blocks);
  const std::size_t used = kernel->info().static_shared_bytes;
  *bytes = std::min(each > used ? each - used : 0,
                    static_cast<std::size_t>(kernel->max_dynamic_shared_bytes));
  return CUDA_SUCCESS;
}
