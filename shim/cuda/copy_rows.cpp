// Pitched copies of linear memory (row copy): cut into rows, or one stretch if there are no gaps.
// Arrays are not carried.
#include "shim/copies.h"

#include <array>

using namespace sluice;
using namespace sluice::shim;

namespace {

struct Side {
  bool is_device = false;
  CUdeviceptr base = 0;  ///< of the first byte that is copied, as a number for host memory too
  std::size_t pitch = 0;
  std::size_t slice_pitch = 0;
};

struct Box {
  std::size_t width_bytes = 0, height = 0, depth = 0;
};

struct Place {
  CUmemorytype type{};
  const void* host = nullptr;
  CUdeviceptr device = 0;
  std::size_t x_bytes = 0, y = 0, z = 0;
  std::size_t pitch = 0;  ///< 0 = rows without gaps
  std::size_t height = 0;
};

CUresult locate(wire::Fn fn, const Place& place, const Box& box, Side* side) {
  switch (place.type) {
    case CU_MEMORYTYPE_HOST:
      side->base = reinterpret_cast<CUdeviceptr>(place.host);
      break;
    case CU_MEMORYTYPE_DEVICE:
      side->base = place.device;
      side->is_device = true;
      break;
    case CU_MEMORYTYPE_UNIFIED:
      side->base = place.device;
      side->is_device = is_device_memory(place.device);
      break;
    case CU_MEMORYTYPE_ARRAY:
      return unsupported(fn);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  side->pitch = place.pitch != 0 ? place.pitch : place.x_bytes + box.width_bytes;
  side->slice_pitch = side->pitch * (place.height != 0 ? place.height : place.y + box.height);
  if (side->base == 0 || side->pitch < place.x_bytes + box.width_bytes ||
      place.pitch > (std::size_t{1} << 40) ||
      (box.depth > 1 && place.height != 0 && place.height < place.y + box.height))
    return CUDA_ERROR_INVALID_VALUE;
  side->base += place.z * side->slice_pitch + place.y * side->pitch + place.x_bytes;
  return CUDA_SUCCESS;
}

std::size_t extent_bytes_of(const Side& side, const Box& box) {
  return (box.depth - 1) * side.slice_pitch + (box.height - 1) * side.pitch + box.width_bytes;
}

bool has_gaps(const Side& side, const Box& box) {
  return (box.height > 1 && side.pitch != box.width_bytes) ||
         (box.depth > 1 && side.slice_pitch != box.width_bytes * box.height);
}

CUresult copy_stretch(const Side& to, const Side& from, std::size_t offset_to,
                      std::size_t offset_from, std::size_t bytes, CUstream stream, CopyMode mode) {
  const CUdeviceptr target = to.base + offset_to;
  const CUdeviceptr source = from.base + offset_from;
  if (to.is_device && from.is_device) return device_to_device(target, source, bytes, stream);
  if (to.is_device)
    return host_to_device(target, reinterpret_cast<const void*>(source), bytes, stream, mode);
  if (from.is_device)
    return device_to_host(reinterpret_cast<void*>(target), source, bytes, stream, mode);
  return host_to_host(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), bytes,
                      stream, mode);
}

template <class Copy>
CUresult for_each_row(const Side& to, const Side& from, const Box& box, const Copy& copy) {
  for (std::size_t z = 0; z < box.depth; ++z)
    for (std::size_t y = 0; y < box.height; ++y)
      if (const CUresult failed =
              copy(z * to.slice_pitch + y * to.pitch, z * from.slice_pitch + y * from.pitch))
        return failed;
  return CUDA_SUCCESS;
}

/// All rows are asked for before the first is waited for.
CUresult read_rows(const Side& to, const Side& from, const Box& box, CUstream handle,
                   CopyMode mode) {
  Stream* stream = nullptr;
  if (const CUresult bad = find_stream(handle, &stream)) return bad;
  if (stream->is_capturing.load())
    return for_each_row(to, from, box, [&](std::size_t offset_to, std::size_t offset_from) {
      return device_to_host(reinterpret_cast<void*>(to.base + offset_to), from.base + offset_from,
                            box.width_bytes, handle, mode);
    });
  if (const CUresult bad = use_stream(handle, &stream)) return bad;
  const CUresult posted =
      for_each_row(to, from, box, [&](std::size_t offset_to, std::size_t offset_from) {
        return session().transfers().read(
            {.source = from.base + offset_from,
             .destination = reinterpret_cast<std::byte*>(to.base + offset_to),
             .bytes = box.width_bytes,
             .stream = stream->id,
             .context = current_context_id()},
            false);
      });
  const auto* first = reinterpret_cast<const void*>(to.base);
  const std::size_t bytes = extent_bytes_of(to, box);
  if (mode == CopyMode::kAsynchronous && posted == CUDA_SUCCESS &&
      session().addresses().is_pinned(first, bytes))
    return CUDA_SUCCESS;
  const WaitScope waiting;
  const CUresult arrived = session().transfers().settle(first, bytes);
  return or_deferred(posted != CUDA_SUCCESS ? posted : arrived);
}

CUresult copy_box(wire::Fn fn, const Place& destination, const Place& source, const Box& box,
                  CUstream stream, CopyMode mode) {
  if (box.width_bytes == 0 || box.height == 0 || box.depth == 0) return CUDA_SUCCESS;
  Side to;
  Side from;
  if (const CUresult bad = locate(fn, destination, box, &to)) return bad;
  if (const CUresult bad = locate(fn, source, box, &from)) return bad;
  const Addresses& addresses = session().addresses();
  if ((to.is_device && !addresses.is_within(to.base, extent_bytes_of(to, box))) ||
      (from.is_device && !addresses.is_within(from.base, extent_bytes_of(from, box))))
    return CUDA_ERROR_INVALID_VALUE;
  if (!has_gaps(to, box) && !has_gaps(from, box))
    return copy_stretch(to, from, 0, 0, box.width_bytes * box.height * box.depth, stream, mode);
  if (from.is_device && !to.is_device) return read_rows(to, from, box, stream, mode);
  return for_each_row(to, from, box, [&](std::size_t offset_to, std::size_t offset_from) {
    return copy_stretch(to, from, offset_to, offset_from, box.width_bytes, stream, mode);
  });
}

CUresult copy_2d(wire::Fn fn, const CUDA_MEMCPY2D* copy, CUstream stream, CopyMode mode) {
  if (const CUresult refused = enter(fn)) return refused;
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Place to{.type = copy->dstMemoryType,
                 .host = copy->dstHost,
                 .device = copy->dstDevice,
                 .x_bytes = copy->dstXInBytes,
                 .y = copy->dstY,
                 .pitch = copy->dstPitch};
  const Place from{.type = copy->srcMemoryType,
                   .host = copy->srcHost,
                   .device = copy->srcDevice,
                   .x_bytes = copy->srcXInBytes,
                   .y = copy->srcY,
                   .pitch = copy->srcPitch};
  return copy_box(fn, to, from, {copy->WidthInBytes, copy->Height, 1}, stream, mode);
}

CUresult copy_3d(wire::Fn fn, const CUDA_MEMCPY3D* copy, CUstream stream, CopyMode mode) {
  if (const CUresult refused = enter(fn)) return refused;
  if (copy == nullptr || copy->srcLOD != 0 || copy->dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
  const Place to{.type = copy->dstMemoryType,
                 .host = copy->dstHost,
                 .device = copy->dstDevice,
                 .x_bytes = copy->dstXInBytes,
                 .y = copy->dstY,
                 .z = copy->dstZ,
                 .pitch = copy->dstPitch,
                 .height = copy->dstHeight};
  const Place from{.type = copy->srcMemoryType,
                   .host = copy->srcHost,
                   .device = copy->srcDevice,
                   .x_bytes = copy->srcXInBytes,
                   .y = copy->srcY,
                   .z = copy->srcZ,
                   .pitch = copy->srcPitch,
                   .height = copy->srcHeight};
  return copy_box(fn, to, from, {copy->WidthInBytes, copy->Height, copy->Depth}, stream, mode);
}

}  // namespace

SLUICE_API cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) {
  return copy_2d(wire::Fn::cuMemcpy2D_v2, pCopy, nullptr, CopyMode::kSynchronous);
}

SLUICE_API cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy) {
  return copy_2d(wire::Fn::cuMemcpy2DUnaligned_v2, pCopy, nullptr, CopyMode::kSynchronous);
}

SLUICE_API cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
  return copy_2d(wire::Fn::cuMemcpy2DAsync_v2, pCopy, hStream, CopyMode::kAsynchronous);
}

SLUICE_API cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy) {
  return copy_3d(wire::Fn::cuMemcpy3D_v2, pCopy, nullptr, CopyMode::kSynchronous);
}

SLUICE_API cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
  return copy_3d(wire::Fn::cuMemcpy3DAsync_v2, pCopy, hStream, CopyMode::kAsynchronous);
}
