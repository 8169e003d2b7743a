// Copies of rectangles and boxes, between linear memory and arrays.
#include "shim/cudart/copy_box.h"

#include <cstring>

using namespace sluice::cudart;
using sluice::DriverTable;

namespace {

struct Sides {
  CUmemorytype from;
  CUmemorytype to;
};

/// Which memory a linear side of a copy is in. Unified addresses travel in the device field.
bool sides_of(cudaMemcpyKind kind, Sides* sides) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      *sides = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST};
      return true;
    case cudaMemcpyHostToDevice:
      *sides = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE};
      return true;
    case cudaMemcpyDeviceToHost:
      *sides = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST};
      return true;
    case cudaMemcpyDeviceToDevice:
      *sides = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE};
      return true;
    case cudaMemcpyDefault:
      *sides = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED};
      return true;
  }
  return false;
}

// The two APIs' copy structs name the same things; these set one side of any of them.
template <class Copy>
void set_source(Copy* copy, CUmemorytype type, const void* memory, std::size_t pitch) {
  copy->srcMemoryType = type;
  copy->srcPitch = pitch;
  if (type == CU_MEMORYTYPE_HOST)
    copy->srcHost = memory;
  else
    copy->srcDevice = address(memory);
}
template <class Copy>
void set_target(Copy* copy, CUmemorytype type, void* memory, std::size_t pitch) {
  copy->dstMemoryType = type;
  copy->dstPitch = pitch;
  if (type == CU_MEMORYTYPE_HOST)
    copy->dstHost = memory;
  else
    copy->dstDevice = address(memory);
}

/// A rectangle of linear memory or, with `array`, of an array at (x bytes, y rows).
struct Plane {
  void* memory = nullptr;
  std::size_t pitch = 0;
  cudaArray_const_t array = nullptr;
  std::size_t x_bytes = 0;
  std::size_t y = 0;
};

cudaError_t plan_rectangle(const Plane& to, const Plane& from, std::size_t width,
                           std::size_t height, cudaMemcpyKind kind, CUDA_MEMCPY2D* copy) {
  Sides sides{};
  if (!sides_of(kind, &sides)) return cudaErrorInvalidMemcpyDirection;
  if ((to.array == nullptr && to.pitch < width) || (from.array == nullptr && from.pitch < width))
    return cudaErrorInvalidPitchValue;
  *copy = {};
  copy->WidthInBytes = width;
  copy->Height = height;
  copy->srcXInBytes = from.x_bytes;
  copy->srcY = from.y;
  copy->dstXInBytes = to.x_bytes;
  copy->dstY = to.y;
  set_source(copy, sides.from, from.memory, from.pitch);
  set_target(copy, sides.to, to.memory, to.pitch);
  if (from.array != nullptr) {
    copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy->srcArray = to_array(from.array);
  }
  if (to.array != nullptr) {
    copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy->dstArray = to_array(to.array);
  }
  return cudaSuccess;
}

/// Null `stream` pointer = the copy waits.
cudaError_t copy_rectangle(const Plane& to, const Plane& from, std::size_t width,
                           std::size_t height, cudaMemcpyKind kind, const cudaStream_t* stream) {
  return with_context([&](const DriverTable& cu) {
    CUDA_MEMCPY2D copy;
    if (width == 0 || height == 0) return cudaSuccess;
    if (cudaError_t error = plan_rectangle(to, from, width, height, kind, &copy);
        error != cudaSuccess)
      return error;
    return to_runtime(stream != nullptr ? cu.cuMemcpy2DAsync_v2(&copy, *stream)
                                        : cu.cuMemcpy2DUnaligned_v2(&copy));
  });
}

Plane linear(const void* memory, std::size_t pitch) {
  return {.memory = const_cast<void*>(memory), .pitch = pitch};
}
Plane of_array(cudaArray_const_t array, std::size_t x_bytes, std::size_t y) {
  return {.array = array, .x_bytes = x_bytes, .y = y};
}

}  // namespace

namespace sluice::cudart {

CUresult array_element_bytes(const DriverTable& cu, CUarray array, std::size_t* bytes) noexcept {
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  CUresult result = cu.cuArray3DGetDescriptor_v2(&descriptor, array);
  std::size_t channel_bytes = 1;
  switch (static_cast<int>(descriptor.Format)) {
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      channel_bytes = 2;
      break;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      channel_bytes = 4;
      break;
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      break;
    default:
      return result == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : result;
  }
  *bytes = channel_bytes * descriptor.NumChannels;
  return result;
}

cudaError_t to_driver_copy(const DriverTable& cu, const cudaMemcpy3DParms& params,
                           CUDA_MEMCPY3D* copy) noexcept {
  Sides sides{};
  if (!sides_of(params.kind, &sides)) return cudaErrorInvalidMemcpyDirection;
  std::size_t element = 1;
  if (cudaArray_t array = params.srcArray ? params.srcArray : params.dstArray; array != nullptr)
    if (CUresult result = array_element_bytes(cu, to_array(array), &element);
        result != CUDA_SUCCESS)
      return to_runtime(result);
  *copy = {};
  copy->WidthInBytes = params.extent.width * element;
  copy->Height = params.extent.height;
  copy->Depth = params.extent.depth;
  // Positions count the elements of their own side: bytes for linear memory.
  copy->srcXInBytes = params.srcPos.x * (params.srcArray ? element : 1);
  copy->srcY = params.srcPos.y;
  copy->srcZ = params.srcPos.z;
  copy->dstXInBytes = params.dstPos.x * (params.dstArray ? element : 1);
  copy->dstY = params.dstPos.y;
  copy->dstZ = params.dstPos.z;
  set_source(copy, sides.from, params.srcPtr.ptr, params.srcPtr.pitch);
  set_target(copy, sides.to, params.dstPtr.ptr, params.dstPtr.pitch);
  copy->srcHeight = params.srcPtr.ysize;
  copy->dstHeight = params.dstPtr.ysize;
  if (params.srcArray != nullptr) {
    copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy->srcArray = to_array(params.srcArray);
  }
  if (params.dstArray != nullptr) {
    copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy->dstArray = to_array(params.dstArray);
  }
  return cudaSuccess;
}

namespace {

cudaMemcpyKind kind_of(CUmemorytype from, CUmemorytype to) {
  if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
  const bool is_from_host = from == CU_MEMORYTYPE_HOST;
  const bool is_to_host = to == CU_MEMORYTYPE_HOST;
  if (is_from_host) return is_to_host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  return is_to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

}  // namespace

cudaError_t from_driver_copy(const DriverTable& cu, const CUDA_MEMCPY3D& copy,
                             cudaMemcpy3DParms* params) noexcept {
  *params = {};
  const bool is_from_array = copy.srcMemoryType == CU_MEMORYTYPE_ARRAY;
  const bool is_to_array = copy.dstMemoryType == CU_MEMORYTYPE_ARRAY;
  std::size_t element = 1;
  if (is_from_array || is_to_array)
    if (CUresult result =
            array_element_bytes(cu, is_from_array ? copy.srcArray : copy.dstArray, &element);
        result != CUDA_SUCCESS)
      return to_runtime(result);
  params->extent = {copy.WidthInBytes / element, copy.Height, copy.Depth};
  params->srcPos = {copy.srcXInBytes / (is_from_array ? element : 1), copy.srcY, copy.srcZ};
  params->dstPos = {copy.dstXInBytes / (is_to_array ? element : 1), copy.dstY, copy.dstZ};
  if (is_from_array) {
    params->srcArray = reinterpret_cast<cudaArray_t>(copy.srcArray);
  } else {
    void* memory = copy.srcMemoryType == CU_MEMORYTYPE_HOST ? const_cast<void*>(copy.srcHost)
                                                            : pointer(copy.srcDevice);
    params->srcPtr = {memory, copy.srcPitch, copy.srcPitch, copy.srcHeight};
  }
  if (is_to_array) {
    params->dstArray = reinterpret_cast<cudaArray_t>(copy.dstArray);
  } else {
    void* memory =
        copy.dstMemoryType == CU_MEMORYTYPE_HOST ? copy.dstHost : pointer(copy.dstDevice);
    params->dstPtr = {memory, copy.dstPitch, copy.dstPitch, copy.dstHeight};
  }
  params->kind = kind_of(copy.srcMemoryType, copy.dstMemoryType);
  return cudaSuccess;
}

}  // namespace sluice::cudart

SLUICE_CUDART_API cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from,
                                           std::size_t from_pitch, std::size_t width,
                                           std::size_t height, cudaMemcpyKind kind) {
  return copy_rectangle(linear(to, to_pitch), linear(from, from_pitch), width, height, kind,
                        nullptr);
}

SLUICE_CUDART_API cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                                                std::size_t from_pitch, std::size_t width,
                                                std::size_t height, cudaMemcpyKind kind,
                                                cudaStream_t stream) {
  return copy_rectangle(linear(to, to_pitch), linear(from, from_pitch), width, height, kind,
                        &stream);
}

SLUICE_CUDART_API cudaError_t cudaMemcpy2DToArray(cudaArray_t to, std::size_t x, std::size_t y,
                                                  const void* from, std::size_t pitch,
                                                  std::size_t width, std::size_t height,
                                                  cudaMemcpyKind kind) {
  return copy_rectangle(of_array(to, x, y), linear(from, pitch), width, height, kind, nullptr);
}

SLUICE_CUDART_API cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, std::size_t x, std::size_t y,
                                                       const void* from, std::size_t pitch,
                                                       std::size_t width, std::size_t height,
                                                       cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_rectangle(of_array(to, x, y), linear(from, pitch), width, height, kind, &stream);
}

SLUICE_CUDART_API cudaError_t cudaMemcpy2DFromArray(void* to, std::size_t pitch,
                                                    cudaArray_const_t from, std::size_t x,
                                                    std::size_t y, std::size_t width,
                                                    std::size_t height, cudaMemcpyKind kind) {
  return copy_rectangle(linear(to, pitch), of_array(from, x, y), width, height, kind, nullptr);
}

SLUICE_CUDART_API cudaError_t cudaMemcpy2DFromArrayAsync(void* to, std::size_t pitch,
                                                         cudaArray_const_t from, std::size_t x,
                                                         std::size_t y, std::size_t width,
                                                         std::size_t height, cudaMemcpyKind kind,
                                                         cudaStream_t stream) {
  return copy_rectangle(linear(to, pitch), of_array(from, x, y), width, height, kind, &stream);
}

SLUICE_CUDART_API cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, std::size_t to_x,
                                                       std::size_t to_y, cudaArray_const_t from,
                                                       std::size_t from_x, std::size_t from_y,
                                                       std::size_t width, std::size_t height,
                                                       cudaMemcpyKind kind) {
  return copy_rectangle(of_array(to, to_x, to_y), of_array(from, from_x, from_y), width, height,
                        kind, nullptr);
}

SLUICE_CUDART_API cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* params) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_MEMCPY3D copy;
    cudaError_t error = to_driver_copy(cu, *params, &copy);
    return error == cudaSuccess ? to_runtime(cu.cuMemcpy3D_v2(&copy)) : error;
  });
}

SLUICE_CUDART_API cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* params,
                                                cudaStream_t stream) {
  if (params == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_MEMCPY3D copy;
    cudaError_t error = to_driver_copy(cu, *params, &copy);
    return error == cudaSuccess ? to_runtime(cu.cuMemcpy3DAsync_v2(&copy, stream)) : error;
  });
}
