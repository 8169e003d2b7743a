// Filling memory.
#include "softgpu/api/ranges.h"
#include "softgpu/api/work.h"

#include <algorithm>
#include <cstring>

using namespace sluice::softgpu;

namespace {

template <class T>
void fill_rows(const CUDA_MEMSET_NODE_PARAMS_v1& f) {
  for (std::size_t row = 0; row < f.height; ++row) {
    auto* p = reinterpret_cast<T*>(f.dst + row * f.pitch);
    std::fill(p, p + f.width, static_cast<T>(f.value));
  }
}

}  // namespace

namespace sluice::softgpu {

CUresult make_fill_work(const CUDA_MEMSET_NODE_PARAMS_v1* params, FillWork* out) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  const auto& f = *params;
  if (f.elementSize != 1 && f.elementSize != 2 && f.elementSize != 4)
    return CUDA_ERROR_INVALID_VALUE;
  if (f.dst % f.elementSize != 0 ||
      (f.height > 1 && (f.pitch < f.width * f.elementSize || f.pitch % f.elementSize != 0)))
    return CUDA_ERROR_INVALID_VALUE;
  if (f.width == 0 || f.height == 0) return CUDA_ERROR_INVALID_VALUE;
  std::size_t bytes = 0, rows = 0;
  if (__builtin_mul_overflow(f.height - 1, f.pitch, &rows) ||
      __builtin_mul_overflow(f.width, std::size_t{f.elementSize}, &bytes) ||
      __builtin_add_overflow(bytes, rows, &bytes) || !is_device_range(f.dst, bytes, true))
    return CUDA_ERROR_INVALID_VALUE;
  out->params = f;
  return CUDA_SUCCESS;
}

CUresult run(const FillWork& work) {
  return run_memory_operation([&] {
    const auto& f = work.params;
    f.elementSize == 1   ? fill_rows<std::uint8_t>(f)
    : f.elementSize == 2 ? fill_rows<std::uint16_t>(f)
                         : fill_rows<std::uint32_t>(f);
  });
}

}  // namespace sluice::softgpu

namespace {

CUresult fill(CUdeviceptr p, std::size_t pitch, unsigned value, unsigned element_bytes,
              std::size_t width, std::size_t height, CUstream handle) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  const CUDA_MEMSET_NODE_PARAMS_v1 params{p, pitch, value, element_bytes, width, height};
  FillWork work;
  SOFTGPU_CHECK(make_fill_work(&params, &work));
  return submit_work(stream, work);
}

}  // namespace

SOFTGPU_API cuMemsetD8_v2(CUdeviceptr p, unsigned char v, size_t n) {
  return fill(p, 0, v, 1, n, 1, nullptr);
}
SOFTGPU_API cuMemsetD16_v2(CUdeviceptr p, unsigned short v, size_t n) {
  return fill(p, 0, v, 2, n, 1, nullptr);
}
SOFTGPU_API cuMemsetD32_v2(CUdeviceptr p, unsigned int v, size_t n) {
  return fill(p, 0, v, 4, n, 1, nullptr);
}
SOFTGPU_API cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s) {
  return fill(p, 0, v, 1, n, 1, s);
}
SOFTGPU_API cuMemsetD16Async(CUdeviceptr p, unsigned short v, size_t n, CUstream s) {
  return fill(p, 0, v, 2, n, 1, s);
}
SOFTGPU_API cuMemsetD32Async(CUdeviceptr p, unsigned int v, size_t n, CUstream s) {
  return fill(p, 0, v, 4, n, 1, s);
}
SOFTGPU_API cuMemsetD2D8_v2(CUdeviceptr p, size_t pitch, unsigned char v, size_t w, size_t h) {
  return fill(p, pitch, v, 1, w, h, nullptr);
}
SOFTGPU_API cuMemsetD2D16_v2(CUdeviceptr p, size_t pitch, unsigned short v, size_t w, size_t h) {
  return fill(p, pitch, v, 2, w, h, nullptr);
}
SOFTGPU_API cuMemsetD2D32_v2(CUdeviceptr p, size_t pitch, unsigned int v, size_t w, size_t h) {
  return fill(p, pitch, v, 4, w, h, nullptr);
}
SOFTGPU_API cuMemsetD2D8Async(CUdeviceptr p, size_t pitch, unsigned char v, size_t w, size_t h,
                              CUstream s) {
  return fill(p, pitch, v, 1, w, h, s);
}
SOFTGPU_API cuMemsetD2D16Async(CUdeviceptr p, size_t pitch, unsigned short v, size_t w, size_t h,
                               CUstream s) {
  return fill(p, pitch, v, 2, w, h, s);
}
SOFTGPU_API cuMemsetD2D32Async(CUdeviceptr p, size_t pitch, unsigned int v, size_t w, size_t h,
                               CUstream s) {
  return fill(p, pitch, v, 4, w, h, s);
}
