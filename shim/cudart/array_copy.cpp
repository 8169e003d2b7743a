// Copies between devices' boxes, and the old copies that treat an array as one line of bytes.
#include "shim/cudart/copy_box.h"
#include "shim/cudart/newest.h"

#include <algorithm>

using namespace sluice::cudart;
using sluice::DriverTable;

namespace {

cudaError_t to_driver_peer_copy(const DriverTable& cu, const cudaMemcpy3DPeerParms& params,
                                CUDA_MEMCPY3D_PEER* to) {
  cudaMemcpy3DParms box{};
  box.srcArray = params.srcArray;
  box.srcPos = params.srcPos;
  box.srcPtr = params.srcPtr;
  box.dstArray = params.dstArray;
  box.dstPos = params.dstPos;
  box.dstPtr = params.dstPtr;
  box.extent = params.extent;
  box.kind = cudaMemcpyDeviceToDevice;
  CUDA_MEMCPY3D copy;
  if (cudaError_t error = to_driver_copy(cu, box, &copy); error != cudaSuccess) return error;
  *to = {};
  to->srcXInBytes = copy.srcXInBytes;
  to->srcY = copy.srcY;
  to->srcZ = copy.srcZ;
  to->srcMemoryType = copy.srcMemoryType;
  to->srcDevice = copy.srcDevice;
  to->srcArray = copy.srcArray;
  to->srcPitch = copy.srcPitch;
  to->srcHeight = copy.srcHeight;
  to->dstXInBytes = copy.dstXInBytes;
  to->dstY = copy.dstY;
  to->dstZ = copy.dstZ;
  to->dstMemoryType = copy.dstMemoryType;
  to->dstDevice = copy.dstDevice;
  to->dstArray = copy.dstArray;
  to->dstPitch = copy.dstPitch;
  to->dstHeight = copy.dstHeight;
  to->WidthInBytes = copy.WidthInBytes;
  to->Height = copy.Height;
  to->Depth = copy.Depth;
  if (cudaError_t error = runtime().primary(cu, params.srcDevice, &to->srcContext);
      error != cudaSuccess)
    return error;
  return runtime().primary(cu, params.dstDevice, &to->dstContext);
}

}  // namespace

SLUICE_CUDART_API cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* params) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_MEMCPY3D_PEER copy;
    cudaError_t error = to_driver_peer_copy(cu, *params, &copy);
    return error == cudaSuccess ? to_runtime(cu.cuMemcpy3DPeer(&copy)) : error;
  });
}

SLUICE_CUDART_API cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* params,
                                                    cudaStream_t stream) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_MEMCPY3D_PEER copy;
    cudaError_t error = to_driver_peer_copy(cu, *params, &copy);
    return error == cudaSuccess ? to_runtime(cu.cuMemcpy3DPeerAsync(&copy, stream)) : error;
  });
}

namespace {

/// Calls `copy(x, y, offset, width, height)` for the rectangles that `bytes` bytes from (x, y) on
/// fill in an array: the rest of a row, whole rows, the beginning of a row.
template <class Copy>
cudaError_t for_each_rectangle(cudaArray_const_t array, std::size_t x, std::size_t y,
                               std::size_t bytes, Copy&& copy) {
  std::size_t row_bytes = 0;
  const cudaError_t error = with_context([&](const DriverTable& cu) {
    CUDA_ARRAY3D_DESCRIPTOR descriptor{};
    CUresult result = cu.cuArray3DGetDescriptor_v2(&descriptor, to_array(array));
    if (result == CUDA_SUCCESS) result = array_element_bytes(cu, to_array(array), &row_bytes);
    row_bytes *= descriptor.Width;
    return result;
  });
  if (error != cudaSuccess) return error;
  if (x >= row_bytes) return record(cudaErrorInvalidValue);
  std::size_t offset = 0;
  while (offset < bytes) {
    const std::size_t left = bytes - offset;
    const bool is_whole = x == 0 && left >= row_bytes;
    const std::size_t width = is_whole ? row_bytes : std::min(left, row_bytes - x);
    const std::size_t height = is_whole ? left / row_bytes : 1;
    if (cudaError_t failed = copy(x, y, offset, width, height); failed != cudaSuccess)
      return failed;
    offset += width * height;
    y += height;
    x = 0;
  }
  return cudaSuccess;
}

}  // namespace

SLUICE_CUDART_API cudaError_t cudaMemcpyToArray(cudaArray_t to, std::size_t x, std::size_t y,
                                                const void* from, std::size_t bytes,
                                                cudaMemcpyKind kind) {
  return for_each_rectangle(to, x, y, bytes,
                            [&](std::size_t at_x, std::size_t at_y, std::size_t offset,
                                std::size_t width, std::size_t height) {
                              return cudaMemcpy2DToArray(to, at_x, at_y,
                                                         static_cast<const char*>(from) + offset,
                                                         width, width, height, kind);
                            });
}

SLUICE_CUDART_API cudaError_t cudaMemcpyToArrayAsync(cudaArray_t to, std::size_t x, std::size_t y,
                                                     const void* from, std::size_t bytes,
                                                     cudaMemcpyKind kind, cudaStream_t stream) {
  return for_each_rectangle(to, x, y, bytes,
                            [&](std::size_t at_x, std::size_t at_y, std::size_t offset,
                                std::size_t width, std::size_t height) {
                              return cudaMemcpy2DToArrayAsync(
                                  to, at_x, at_y, static_cast<const char*>(from) + offset, width,
                                  width, height, kind, stream);
                            });
}

SLUICE_CUDART_API cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, std::size_t x,
                                                  std::size_t y, std::size_t bytes,
                                                  cudaMemcpyKind kind) {
  return for_each_rectangle(from, x, y, bytes,
                            [&](std::size_t at_x, std::size_t at_y, std::size_t offset,
                                std::size_t width, std::size_t height) {
                              return cudaMemcpy2DFromArray(static_cast<char*>(to) + offset, width,
                                                           from, at_x, at_y, width, height, kind);
                            });
}

SLUICE_CUDART_API cudaError_t cudaMemcpyFromArrayAsync(void* to, cudaArray_const_t from,
                                                       std::size_t x, std::size_t y,
                                                       std::size_t bytes, cudaMemcpyKind kind,
                                                       cudaStream_t stream) {
  return for_each_rectangle(from, x, y, bytes,
                            [&](std::size_t at_x, std::size_t at_y, std::size_t offset,
                                std::size_t width, std::size_t height) {
                              return cudaMemcpy2DFromArrayAsync(static_cast<char*>(to) + offset,
                                                                width, from, at_x, at_y, width,
                                                                height, kind, stream);
                            });
}

SLUICE_CUDART_API cudaError_t cudaStreamCopyAttributes_ptsz(cudaStream_t to, cudaStream_t from) {
  return cudaStreamCopyAttributes(per_thread(to), per_thread(from));
}
