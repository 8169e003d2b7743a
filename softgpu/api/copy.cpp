// Copies of linear memory. Device memory is this process's memory, so a copy is a memmove in stream
// order.
#include "softgpu/api/ranges.h"
#include "softgpu/api/work.h"

#include <cstring>
#include <vector>

namespace sluice::softgpu {
namespace {

constexpr std::size_t kStageBytesMax = 64 * 1024;

struct End {
  CUmemorytype type;
  void* host;
  CUdeviceptr device;
  std::size_t x, y, z, pitch, height;
};

/// Where the end's first byte is, and whether the whole of it may be touched.
CUresult resolve(const End& e, const CUDA_MEMCPY3D& c, bool for_writing, std::byte** out) {
  if (e.type == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  if (e.type != CU_MEMORYTYPE_HOST && e.type != CU_MEMORYTYPE_DEVICE &&
      e.type != CU_MEMORYTYPE_UNIFIED)
    return CUDA_ERROR_INVALID_VALUE;
  if ((c.Height > 1 || c.Depth > 1) && e.pitch < c.WidthInBytes) return CUDA_ERROR_INVALID_VALUE;
  auto* base = static_cast<std::byte*>(
      e.type == CU_MEMORYTYPE_HOST ? e.host : reinterpret_cast<void*>(e.device));
  if (base == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = base + e.x + e.y * e.pitch + e.z * e.pitch * e.height;
  const std::size_t bytes =
      (c.Depth - 1) * e.pitch * e.height + (c.Height - 1) * e.pitch + c.WidthInBytes;
  const auto address = reinterpret_cast<CUdeviceptr>(*out);
  const bool must_be_device = e.type == CU_MEMORYTYPE_DEVICE ||
                              (e.type == CU_MEMORYTYPE_UNIFIED && is_device_address(address));
  return must_be_device && !is_device_range(address, bytes, for_writing) ? CUDA_ERROR_INVALID_VALUE
                                                                         : CUDA_SUCCESS;
}

enum class Side { kHost, kDevice };

CUDA_MEMCPY3D linear(void* to, Side target, const void* from, Side source, std::size_t bytes) {
  CUDA_MEMCPY3D c{};
  c.srcMemoryType = source == Side::kHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  c.srcHost = source == Side::kHost ? from : nullptr;
  c.srcDevice = source == Side::kHost ? 0 : reinterpret_cast<CUdeviceptr>(from);
  c.dstMemoryType = target == Side::kHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  c.dstHost = target == Side::kHost ? to : nullptr;
  c.dstDevice = target == Side::kHost ? 0 : reinterpret_cast<CUdeviceptr>(to);
  c.WidthInBytes = bytes;
  c.Height = c.Depth = 1;
  return c;
}

/// Pageable memory: neither pinned nor the device's.
bool is_pageable(const void* p, const Box& box, std::size_t pitch, std::size_t slice) {
  const std::size_t bytes = (box.depth - 1) * slice + (box.height - 1) * pitch + box.width;
  return !is_device_address(reinterpret_cast<CUdeviceptr>(p)) && !is_pinned(p, bytes);
}

/// Source side: pageable memory is read before the call returns. Target side: pageable memory is
/// written before it returns.
CUresult copy(const CUDA_MEMCPY3D* c, bool is_async, CUstream handle) {
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of_any_context(handle, &stream));
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (c->WidthInBytes == 0 || c->Height == 0 || c->Depth == 0) return CUDA_SUCCESS;
  CopyWork work;
  SOFTGPU_CHECK(make_copy_work(c, &work));
  const Box& box = work.box;
  const bool reads_pageable = is_pageable(box.from, box, box.from_pitch, box.from_slice);
  const bool writes_pageable = is_pageable(box.to, box, box.to_pitch, box.to_slice);
  const bool is_row = box.height == 1 && box.depth == 1;
  // A captured copy reads its source at every replay.
  if (is_row && reads_pageable && is_device_address(reinterpret_cast<CUdeviceptr>(box.to)) &&
      box.width <= kStageBytesMax && !is_capturing(stream))
    return submit(stream,
                  [to = box.to, data = std::vector<std::byte>(box.from, box.from + box.width)] {
                    return run_memory_operation([&] { std::memcpy(to, data.data(), data.size()); });
                  });
  const bool is_on_device = is_device_address(reinterpret_cast<CUdeviceptr>(box.from)) &&
                            is_device_address(reinterpret_cast<CUdeviceptr>(box.to));
  OperationPtr operation;
  SOFTGPU_CHECK(submit_work(stream, work, &operation));
  const bool waits = !is_on_device && (!is_async || reads_pageable || writes_pageable);
  if (!waits || operation == nullptr) return CUDA_SUCCESS;
  return wait_all(*stream->context, {operation});
}

CUresult copy(void* to, Side target, const void* from, Side source, std::size_t bytes,
              bool is_async, CUstream stream) {
  const CUDA_MEMCPY3D c = linear(to, target, from, source, bytes);
  return copy(&c, is_async, stream);
}

Side side_of(CUdeviceptr p) {
  return is_device_address(p) ? Side::kDevice : Side::kHost;
}

}  // namespace

void Box::run() const {
  for (std::size_t z = 0; z < depth; ++z)
    for (std::size_t y = 0; y < height; ++y)
      std::memmove(to + z * to_slice + y * to_pitch, from + z * from_slice + y * from_pitch, width);
}

CUresult make_copy_work(const CUDA_MEMCPY3D* params, CopyWork* out) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  const CUDA_MEMCPY3D& c = *params;
  if (c.WidthInBytes == 0 || c.Height == 0 || c.Depth == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto or_else = [](std::size_t value, std::size_t preset) {
    return value != 0 ? value : preset;
  };
  const End source{c.srcMemoryType,
                   const_cast<void*>(c.srcHost),
                   c.srcDevice,
                   c.srcXInBytes,
                   c.srcY,
                   c.srcZ,
                   or_else(c.srcPitch, c.WidthInBytes),
                   or_else(c.srcHeight, c.Height)};
  const End target{c.dstMemoryType,
                   c.dstHost,
                   c.dstDevice,
                   c.dstXInBytes,
                   c.dstY,
                   c.dstZ,
                   or_else(c.dstPitch, c.WidthInBytes),
                   or_else(c.dstHeight, c.Height)};
  std::byte* from = nullptr;
  std::byte* to = nullptr;
  SOFTGPU_CHECK(resolve(source, c, false, &from));
  SOFTGPU_CHECK(resolve(target, c, true, &to));
  out->params = c;
  out->box = {to,
              from,
              target.pitch,
              target.pitch * target.height,
              source.pitch,
              source.pitch * source.height,
              c.WidthInBytes,
              c.Height,
              c.Depth};
  return CUDA_SUCCESS;
}

CUresult run(const CopyWork& work) {
  return run_memory_operation([&] { work.box.run(); });
}

namespace {

CUresult copy_2d(const CUDA_MEMCPY2D* c, bool is_async, CUstream stream) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D wide{};
  wide.srcXInBytes = c->srcXInBytes, wide.srcY = c->srcY;
  wide.srcMemoryType = c->srcMemoryType;
  wide.srcHost = c->srcHost, wide.srcDevice = c->srcDevice, wide.srcPitch = c->srcPitch;
  wide.dstXInBytes = c->dstXInBytes, wide.dstY = c->dstY;
  wide.dstMemoryType = c->dstMemoryType;
  wide.dstHost = c->dstHost, wide.dstDevice = c->dstDevice, wide.dstPitch = c->dstPitch;
  wide.WidthInBytes = c->WidthInBytes, wide.Height = c->Height, wide.Depth = 1;
  return copy(&wide, is_async, stream);
}

void* pointer(CUdeviceptr p) {
  return reinterpret_cast<void*>(p);
}

}  // namespace
}  // namespace sluice::softgpu

using namespace sluice::softgpu;

SOFTGPU_API cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t n) {
  return copy(pointer(to), Side::kDevice, from, Side::kHost, n, false, nullptr);
}
SOFTGPU_API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t n, CUstream s) {
  return copy(pointer(to), Side::kDevice, from, Side::kHost, n, true, s);
}
SOFTGPU_API cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t n) {
  return copy(to, Side::kHost, pointer(from), Side::kDevice, n, false, nullptr);
}
SOFTGPU_API cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t n, CUstream s) {
  return copy(to, Side::kHost, pointer(from), Side::kDevice, n, true, s);
}
SOFTGPU_API cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n) {
  return copy(pointer(to), Side::kDevice, pointer(from), Side::kDevice, n, false, nullptr);
}
SOFTGPU_API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  return copy(pointer(to), Side::kDevice, pointer(from), Side::kDevice, n, true, s);
}
SOFTGPU_API cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) {
  return copy(pointer(to), side_of(to), pointer(from), side_of(from), n, false, nullptr);
}
SOFTGPU_API cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
  return copy(pointer(to), side_of(to), pointer(from), side_of(from), n, true, s);
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
  return copy(c, false, nullptr);
}
SOFTGPU_API cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* c, CUstream s) {
  return copy(c, true, s);
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
  return copy(pointer(to), Side::kDevice, pointer(from), Side::kDevice, n, true, s);
}

namespace {
CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER* c, bool is_async, CUstream stream) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  for (const CUcontext context : {c->srcContext, c->dstContext})
    if (context != nullptr && state().contexts.find(context) == nullptr)
      return CUDA_ERROR_INVALID_CONTEXT;
  CUDA_MEMCPY3D plain{};
  plain.srcXInBytes = c->srcXInBytes, plain.srcY = c->srcY, plain.srcZ = c->srcZ;
  plain.srcMemoryType = c->srcMemoryType, plain.srcHost = c->srcHost;
  plain.srcDevice = c->srcDevice, plain.srcPitch = c->srcPitch, plain.srcHeight = c->srcHeight;
  plain.dstXInBytes = c->dstXInBytes, plain.dstY = c->dstY, plain.dstZ = c->dstZ;
  plain.dstMemoryType = c->dstMemoryType, plain.dstHost = c->dstHost;
  plain.dstDevice = c->dstDevice, plain.dstPitch = c->dstPitch, plain.dstHeight = c->dstHeight;
  plain.WidthInBytes = c->WidthInBytes, plain.Height = c->Height, plain.Depth = c->Depth;
  return copy(&plain, is_async, stream);
}
}  // namespace

SOFTGPU_API cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* c) {
  return copy_3d_peer(c, true, nullptr);
}
SOFTGPU_API cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* c, CUstream stream) {
  return copy_3d_peer(c, true, stream);
}
