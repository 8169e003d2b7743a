// A driver-API program that asks for more memory than its 64-MiB slice: it must get exactly
// CUDA_ERROR_OUT_OF_MEMORY, keep what it had, and see the slice in cuMemGetInfo.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

static const size_t kMiB = size_t{1} << 20;

static void expect(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "over_quota: %s\n", what);
  std::exit(1);
}

int main() {
  CUdevice device;
  CUcontext context;
  expect(cuInit(0) == CUDA_SUCCESS, "cuInit failed");
  expect(cuDeviceGet(&device, 0) == CUDA_SUCCESS, "cuDeviceGet failed");
  expect(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS, "no context");
  expect(cuCtxSetCurrent(context) == CUDA_SUCCESS, "context cannot be made current");
  size_t free_bytes = 0, total_bytes = 0, device_bytes = 0;
  expect(cuMemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS, "cuMemGetInfo failed");
  expect(cuDeviceTotalMem(&device_bytes, device) == CUDA_SUCCESS, "cuDeviceTotalMem failed");
  expect(total_bytes == 64 * kMiB, "cuMemGetInfo does not show the 64-MiB slice as the total");
  expect(device_bytes == 64 * kMiB, "cuDeviceTotalMem does not show the 64-MiB slice");
  expect(free_bytes <= total_bytes, "more free than total");

  CUdeviceptr kept = 0, refused = 0;
  std::vector<unsigned> pattern(40 * kMiB / sizeof(unsigned)), back(pattern.size());
  for (size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<unsigned>(i * 2654435761u);
  expect(cuMemAlloc(&kept, 40 * kMiB) == CUDA_SUCCESS, "40 MiB of 64 were refused");
  expect(cuMemcpyHtoD(kept, pattern.data(), 40 * kMiB) == CUDA_SUCCESS, "copying failed");
  const CUresult result = cuMemAlloc(&refused, 32 * kMiB);
  expect(result != CUDA_SUCCESS, "32 MiB more were granted beyond the slice");
  expect(result == CUDA_ERROR_OUT_OF_MEMORY, "the refusal is not CUDA_ERROR_OUT_OF_MEMORY");
  size_t free_after = 0;
  expect(cuMemGetInfo(&free_after, &total_bytes) == CUDA_SUCCESS,
         "cuMemGetInfo failed after the refusal");
  expect(free_after <= 24 * kMiB && free_after + 40 * kMiB <= 64 * kMiB,
         "cuMemGetInfo disagrees with the allocation");
  expect(cuMemcpyDtoH(back.data(), kept, 40 * kMiB) == CUDA_SUCCESS, "reading back failed");
  expect(back == pattern, "the refused request damaged an earlier allocation");
  expect(cuMemFree(kept) == CUDA_SUCCESS, "cuMemFree failed");
  expect(cuMemAlloc(&kept, 60 * kMiB) == CUDA_SUCCESS,
         "60 MiB were refused although everything was freed");
  expect(cuMemFree(kept) == CUDA_SUCCESS, "cuMemFree failed");
  std::printf(
      "over_quota: 40 MiB granted, 32 MiB more refused with CUDA_ERROR_OUT_OF_MEMORY, data intact, "
      "slice shown as %zu MiB\n",
      total_bytes / kMiB);
  return 0;
}
