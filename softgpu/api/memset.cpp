// Filling memory.
#include "softgpu/api/ranges.h"

#include <algorithm>
#include <cstring>

using namespace sluice::softgpu;

namespace {

struct Fill {
  CUdeviceptr at;
  std::size_t pitch, width, height;  ///< width in elements
};

template <class T>
CUresult fill(const Fill& f, T value, CUstream handle) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  if (f.width == 0 || f.height == 0) return CUDA_SUCCESS;
  if (f.at % sizeof(T) != 0 ||
      (f.height > 1 && (f.pitch < f.width * sizeof(T) || f.pitch % sizeof(T) != 0)))
    return CUDA_ERROR_INVALID_VALUE;
  const std::size_t bytes = (f.height - 1) * f.pitch + f.width * sizeof(T);
  if (!is_device_range(f.at, bytes, true)) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, [f, value] {
    return run_memory_operation([&] {
      for (std::size_t row = 0; row < f.height; ++row) {
        auto* p = reinterpret_cast<T*>(f.at + row * f.pitch);
        std::fill(p, p + f.width, value);
      }
    });
  });
}

}  // namespace

SOFTGPU_API cuMemsetD8_v2(CUdeviceptr p, unsigned char v, size_t n) {
  return fill({p, 0, n, 1}, v, nullptr);
}
SOFTGPU_API cuMemsetD16_v2(CUdeviceptr p, unsigned short v, size_t n) {
  return fill({p, 0, n, 1}, v, nullptr);
}
SOFTGPU_API cuMemsetD32_v2(CUdeviceptr p, unsigned int v, size_t n) {
  return fill({p, 0, n, 1}, v, nullptr);
}
SOFTGPU_API cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s) {
  return fill({p, 0, n, 1}, v, s);
}
SOFTGPU_API cuMemsetD16Async(CUdeviceptr p, unsigned short v, size_t n, CUstream s) {
  return fill({p, 0, n, 1}, v, s);
}
SOFTGPU_API cuMemsetD32Async(CUdeviceptr p, unsigned int v, size_t n, CUstream s) {
  return fill({p, 0, n, 1}, v, s);
}
SOFTGPU_API cuMemsetD2D8_v2(CUdeviceptr p, size_t pitch, unsigned char v, size_t w, size_t h) {
  return fill({p, pitch, w, h}, v, nullptr);
}
SOFTGPU_API cuMemsetD2D16_v2(CUdeviceptr p, size_t pitch, unsigned short v, size_t w, size_t h) {
  return fill({p, pitch, w, h}, v, nullptr);
}
SOFTGPU_API cuMemsetD2D32_v2(CUdeviceptr p, size_t pitch, unsigned int v, size_t w, size_t h) {
  return fill({p, pitch, w, h}, v, nullptr);
}
SOFTGPU_API cuMemsetD2D8Async(CUdeviceptr p, size_t pitch, unsigned char v, size_t w, size_t h,
                              CUstream s) {
  return fill({p, pitch, w, h}, v, s);
}
SOFTGPU_API cuMemsetD2D16Async(CUdeviceptr p, size_t pitch, unsigned short v, size_t w, size_t h,
                               CUstream s) {
  return fill({p, pitch, w, h}, v, s);
}
SOFTGPU_API cuMemsetD2D32Async(CUdeviceptr p, size_t pitch, unsigned int v, size_t w, size_t h,
                               CUstream s) {
  return fill({p, pitch, w, h}, v, s);
}
