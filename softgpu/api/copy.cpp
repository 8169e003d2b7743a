// Copies of linear memory. Device memory is this process's memory, so a copy is a memmove in stream
// order.
#include "softgpu/api/ranges.h"

#include <cstring>
#include <vector>

using namespace sluice::softgpu;

namespace {

constexpr std::size_t kStageBytesMax = 64 * 1024;

enum class Side { kHost, kDevice };

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  Side target, source;
  bool is_async;
};

/// Source side: pageable memory is read before the call returns. Target side: pageable memory is
/// written before it returns.
CUresult copy(const Copy& c, CUstream handle) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of_any_context(handle, &stream));
  if (c.bytes == 0) return CUDA_SUCCESS;
  if (c.target == Side::kDevice &&
      !is_device_range(reinterpret_cast<CUdeviceptr>(c.to), c.bytes, true))
    return CUDA_ERROR_INVALID_VALUE;
  if (c.source == Side::kDevice &&
      !is_device_range(reinterpret_cast<CUdeviceptr>(c.from), c.bytes, false))
    return CUDA_ERROR_INVALID_VALUE;
  const bool reads_pageable = c.source == Side::kHost && !is_pinned(c.from, c.bytes);
  const bool writes_pageable = c.target == Side::kHost && !is_pinned(c.to, c.bytes);
  OperationPtr operation;
  // A captured copy reads its source at every replay.
  if (reads_pageable && c.target == Side::kDevice && c.bytes <= kStageBytesMax &&
      !is_capturing(stream)) {
    const auto* from = static_cast<const std::byte*>(c.from);
    SOFTGPU_CHECK(submit(
        stream,
        [to = c.to, data = std::vector<std::byte>(from, from + c.bytes)] {
          return run_memory_operation([&] { std::memcpy(to, data.data(), data.size()); });
        },
        &operation));
    return CUDA_SUCCESS;
  }
  SOFTGPU_CHECK(submit(
      stream,
      [to = c.to, from = c.from, bytes = c.bytes] {
        return run_memory_operation([&] { std::memmove(to, from, bytes); });
      },
      &operation));
  const bool is_on_device = c.source == Side::kDevice && c.target == Side::kDevice;
  const bool waits = !is_on_device && (!c.is_async || reads_pageable || writes_pageable);
  if (!waits || operation == nullptr) return CUDA_SUCCESS;
  return wait_all(*stream->context, {operation});
}

Copy by_address(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, bool is_async) {
  return {reinterpret_cast<void*>(to),
          reinterpret_cast<const void*>(from),
          bytes,
          is_device_address(to) ? Side::kDevice : Side::kHost,
          is_device_address(from) ? Side::kDevice : Side::kHost,
          is_async};
}

/// Rows of a 2D or 3D copy, as one operation.
struct Box {
  std::byte* to;
  const std::byte* from;
  std::size_t to_pitch, to_slice, from_pitch, from_slice, width, height, depth;
  void run() const {
    for (std::size_t z = 0; z < depth; ++z)
      for (std::size_t y = 0; y < height; ++y)
        std::memmove(to + z * to_slice + y * to_pitch, from + z * from_slice + y * from_pitch,
                     width);
  }
};

struct End {
  CUmemorytype type;
  void* host;
  CUdeviceptr device;
  std::size_t x, y, z, pitch, height;
};

CUresult base_of(const End& e, std::byte** out) {
  if (e.type == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  auto* base = static_cast<std::byte*>(
      e.type == CU_MEMORYTYPE_HOST ? e.host : reinterpret_cast<void*>(e.device));
  *out = base + e.x + e.y * e.pitch + e.z * e.pitch * e.height;
  return CUDA_SUCCESS;
}

CUresult copy_box(End source, End target, std::size_t width, std::size_t height, std::size_t depth,
                  bool is_async, CUstream handle) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of_any_context(handle, &stream));
  if (source.pitch == 0) source.pitch = width;
  if (target.pitch == 0) target.pitch = width;
  if (source.height == 0) source.height = height;
  if (target.height == 0) target.height = height;
  if (width == 0 || height == 0 || depth == 0) return CUDA_SUCCESS;
  if (height > 1 && (source.pitch < width || target.pitch < width)) return CUDA_ERROR_INVALID_VALUE;
  std::byte* from = nullptr;
  std::byte* to = nullptr;
  SOFTGPU_CHECK(base_of(source, &from));
  SOFTGPU_CHECK(base_of(target, &to));
  const Box box{to,           from,
                target.pitch, target.pitch * target.height,
                source.pitch, source.pitch * source.height,
                width,        height,
                depth};
  const auto extent = [&](const Box& b, std::size_t pitch, std::size_t slice) {
    return (b.depth - 1) * slice + (b.height - 1) * pitch + b.width;
  };
  const std::size_t from_bytes = extent(box, box.from_pitch, box.from_slice);
  const std::size_t to_bytes = extent(box, box.to_pitch, box.to_slice);
  if (is_device_address(reinterpret_cast<CUdeviceptr>(from)) &&
      !is_device_range(reinterpret_cast<CUdeviceptr>(from), from_bytes, false))
    return CUDA_ERROR_INVALID_VALUE;
  if (is_device_address(reinterpret_cast<CUdeviceptr>(to)) &&
      !is_device_range(reinterpret_cast<CUdeviceptr>(to), to_bytes, true))
    return CUDA_ERROR_INVALID_VALUE;
  OperationPtr operation;
  SOFTGPU_CHECK(submit(
      stream, [box] { return run_memory_operation([&] { box.run(); }); }, &operation));
  const bool touches_pageable =
      (!is_device_address(reinterpret_cast<CUdeviceptr>(from)) && !is_pinned(from, from_bytes)) ||
      (!is_device_address(reinterpret_cast<CUdeviceptr>(to)) && !is_pinned(to, to_bytes));
  if (!is_async || touches_pageable) return wait_all(*stream->context, {operation});
  return stream->context->sticky;
}

CUresult copy_2d(const CUDA_MEMCPY2D* c, bool is_async, CUstream stream) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const End source{c->srcMemoryType, const_cast<void*>(c->srcHost),
                   c->srcDevice,     c->srcXInBytes,
                   c->srcY,          0,
                   c->srcPitch,      0};
  const End target{c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes,
                   c->dstY,          0,          c->dstPitch,  0};
  return copy_box(source, target, c->WidthInBytes, c->Height, 1, is_async, stream);
}

CUresult copy_3d(const CUDA_MEMCPY3D* c, bool is_async, CUstream stream) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const End source{c->srcMemoryType, const_cast<void*>(c->srcHost),
                   c->srcDevice,     c->srcXInBytes,
                   c->srcY,          c->srcZ,
                   c->srcPitch,      c->srcHeight};
  const End target{c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes,
                   c->dstY,          c->dstZ,    c->dstPitch,  c->dstHeight};
  return copy_box(source, target, c->WidthInBytes, c->Height, c->Depth, is_async, stream);
}

void* pointer(CUdeviceptr p) {
  return reinterpret_cast<void*>(p);
}

}  // namespace

SOFTGPU_API cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t n) {
  return copy({pointer(to), from, n, Side::kDevice, Side::kHost, false}, nullptr);
}
SOFTGPU_API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t n, CUstream s) {
  return copy({pointer(to), from, n, Side::kDevice, Side::kHost, true}, s);
}
SOFTGPU_API cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t n) {
  return copy({to, pointer(from), n, Side::kHost, Side::kDevice, false}, nullptr);
}
SOFTGPU_API cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t n, CUstream s) {
  return copy({to, pointer(from), n, Side::kHost, Side::kDevice, true}, s);
}
SOFTGPU_API cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n) {
  return copy({pointer(to), pointer(from), n, Side::kDevice, Side::kDevice, false}, nullptr);
}
SOFTGPU_API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  return copy({pointer(to), pointer(from), n, Side::kDevice, Side::kDevice, true}, s);
}
SOFTGPU_API cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
  return copy(by_address(to, from, n, false), nullptr);
}
SOFTGPU_API cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  return copy(by_address(to, from, n, true), s);
}
SOFTGPU_API cuMemcpy2D_v2(const CUDA_MEMCPY2D* c) {
  return copy_2d(c, false, nullptr);
}
SOFTGPU_API cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* c) {
  return copy_2d(c, false, nullptr);
}
SOFTGPU_API cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* c, CUstream s) {
  return copy_2d(c, true, s);
}
SOFTGPU_API cuMemcpy3D_v2(const CUDA_MEMCPY3D* c) {
  return copy_3d(c, false, nullptr);
}
SOFTGPU_API cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* c, CUstream s) {
  return copy_3d(c, true, s);
}
// Every device's memory is this process's memory: which contexts the addresses belong to makes no
// difference.
SOFTGPU_API cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                         CUcontext from_context, size_t n) {
  return cuMemcpyPeerAsync(to, to_context, from, from_context, n, nullptr);
}
SOFTGPU_API cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                              CUcontext from_context, size_t n, CUstream s) {
  SOFTGPU_CHECK(initialised());
  if (state().contexts.find(to_context) == nullptr ||
      state().contexts.find(from_context) == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  return copy({pointer(to), pointer(from), n, Side::kDevice, Side::kDevice, true}, s);
}
