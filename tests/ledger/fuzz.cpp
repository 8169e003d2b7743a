// ledger_fuzz SEED STEPS: says "ready"; at each line on stdin makes STEPS random steps (allocations
// of all kinds, frees, modules, work) and answers "done STEPS REFUSED": how many were refused with
// CUDA_ERROR_OUT_OF_MEMORY. Any other failure is "failed NAME WHAT" (exit 3).
#include "images.h"

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kObjectsMax = 24;  ///< of each sort

class Fuzz {
 public:
  explicit Fuzz(std::uint64_t seed) : random_(seed) {
    stop_on(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }

  /// How many steps of so many were refused.
  unsigned run(unsigned steps) {
    unsigned refused = 0;
    for (unsigned i = 0; i < steps; ++i)
      if (step() == CUDA_ERROR_OUT_OF_MEMORY) ++refused;
    stop_on(cuCtxSynchronize(), "cuCtxSynchronize");
    return refused;
  }

 private:
  std::size_t up_to(std::size_t n) { return 1 + random_() % n; }
  /// Mostly small, sometimes megabytes, as programs allocate.
  std::size_t size() {
    constexpr std::size_t kMaxima[] = {4096, 1 << 20, 3 << 20, 12 << 20};
    return up_to(kMaxima[random_() % 4]);
  }
  template <class T>
  T take(std::vector<T>& from) {
    std::swap(from[random_() % from.size()], from.back());
    const T out = from.back();
    from.pop_back();
    return out;
  }
  /// Of a call that may be refused for want of memory, and for nothing else.
  static CUresult checked(CUresult result, const char* what) {
    if (result != CUDA_ERROR_OUT_OF_MEMORY) stop_on(result, what);
    return result;
  }

  CUresult step() {
    switch (random_() % 8) {
      case 0:
      case 1:
        return allocate();
      case 2:
        return allocate_async();
      case 3:
        return load();
      case 4:
        if (!memory_.empty()) stop_on(cuMemFree(take(memory_)), "cuMemFree");
        return CUDA_SUCCESS;
      case 5:
        if (!ordered_.empty()) stop_on(cuMemFreeAsync(take(ordered_), stream_), "cuMemFreeAsync");
        return CUDA_SUCCESS;
      case 6:
        if (!modules_.empty()) stop_on(cuModuleUnload(take(modules_)), "cuModuleUnload");
        return CUDA_SUCCESS;
      default:
        return work();
    }
  }
  CUresult allocate() {
    if (memory_.size() == kObjectsMax) stop_on(cuMemFree(take(memory_)), "cuMemFree");
    CUdeviceptr p = 0;
    const CUresult result = checked(cuMemAlloc(&p, size()), "cuMemAlloc");
    if (result == CUDA_SUCCESS) memory_.push_back(p);
    return result;
  }
  CUresult allocate_async() {
    if (ordered_.size() == kObjectsMax)
      stop_on(cuMemFreeAsync(take(ordered_), stream_), "cuMemFreeAsync");
    CUdeviceptr p = 0;
    const CUresult result = checked(cuMemAllocAsync(&p, size(), stream_), "cuMemAllocAsync");
    if (result == CUDA_SUCCESS) ordered_.push_back(p);
    return result;
  }
  CUresult load() {
    if (modules_.size() == kObjectsMax) stop_on(cuModuleUnload(take(modules_)), "cuModuleUnload");
    CUmodule module = nullptr;
    const CUresult result =
        checked(cuModuleLoadData(&module, image_with_variable(size()).c_str()), "cuModuleLoadData");
    if (result == CUDA_SUCCESS) modules_.push_back(module);
    return result;
  }
  CUresult work() {
    if (!ordered_.empty())
      stop_on(cuMemsetD8Async(ordered_.back(), 1, 1, stream_), "cuMemsetD8Async");
    if (!memory_.empty())
      stop_on(cuMemsetD8Async(memory_.back(), 1, 1, stream_), "cuMemsetD8Async");
    return CUDA_SUCCESS;
  }

  std::mt19937_64 random_;
  CUstream stream_ = nullptr;
  std::vector<CUdeviceptr> memory_, ordered_;
  std::vector<CUmodule> modules_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  CUdevice device{};
  CUcontext context = nullptr;
  stop_on(cuInit(0), "cuInit");
  stop_on(cuDeviceGet(&device, 0), "cuDeviceGet");
  stop_on(cuCtxCreate(&context, nullptr, 0, device), "cuCtxCreate");
  Fuzz fuzz(std::strtoull(argv[1], nullptr, 10));
  const auto steps = static_cast<unsigned>(std::atoi(argv[2]));
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << "done " << steps << " " << fuzz.run(steps) << std::endl;
  return 0;
}
