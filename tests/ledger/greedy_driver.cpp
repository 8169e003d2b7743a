// softgpu with a library beside it that takes memory without being asked, as cuBLAS takes a
// workspace: at each cuCtxResetPersistingL2Cache 100 MiB more.
#include <cuda.h>

extern "C" __attribute__((visibility("default"))) CUresult cuCtxResetPersistingL2Cache() {
  constexpr std::size_t kBytes = std::size_t{100} << 20;
  CUdeviceptr workspace = 0;
  return cuMemAlloc(&workspace, kBytes);
}
