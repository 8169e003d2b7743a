// Arrays, also with mipmaps.
#include "shim/cudart/array_format.h"
#include "shim/cudart/copy_box.h"

using namespace sluice::cudart;
using sluice::DriverTable;

namespace {

CUmipmappedArray to_mipmap(cudaMipmappedArray_const_t array) {
  return reinterpret_cast<CUmipmappedArray>(const_cast<cudaMipmappedArray_t>(array));
}

cudaError_t to_descriptor(const cudaChannelFormatDesc& desc, const cudaExtent& extent,
                          unsigned flags, CUDA_ARRAY3D_DESCRIPTOR* to) {
  const std::optional<CUarray_format> format = format_of(desc);
  if (!format) return cudaErrorInvalidChannelDescriptor;
  *to = {.Width = extent.width,
         .Height = extent.height,
         .Depth = extent.depth,
         .Format = *format,
         .NumChannels = channels_of(desc),
         .Flags = flags};
  return cudaSuccess;
}

cudaError_t create(cudaArray_t* array, const cudaChannelFormatDesc* desc, const cudaExtent& extent,
                   unsigned flags) {
  if (array == nullptr || desc == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    if (cudaError_t error = to_descriptor(*desc, extent, flags, &descriptor); error != cudaSuccess)
      return error;
    return to_runtime(cu.cuArray3DCreate_v2(reinterpret_cast<CUarray*>(array), &descriptor));
  });
}

}  // namespace

SLUICE_CUDART_API cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* desc,
                                              std::size_t width, std::size_t height,
                                              unsigned flags) {
  return create(array, desc, {width, height, 0}, flags);
}

SLUICE_CUDART_API cudaError_t cudaMalloc3DArray(cudaArray_t* array,
                                                const cudaChannelFormatDesc* desc,
                                                cudaExtent extent, unsigned flags) {
  return create(array, desc, extent, flags);
}

SLUICE_CUDART_API cudaError_t cudaFreeArray(cudaArray_t array) {
  return with_context([&](const DriverTable& cu) {
    return array == nullptr ? CUDA_SUCCESS : cu.cuArrayDestroy(to_array(array));
  });
}

SLUICE_CUDART_API cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* array,
                                                       const cudaChannelFormatDesc* desc,
                                                       cudaExtent extent, unsigned levels,
                                                       unsigned flags) {
  if (array == nullptr || desc == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    if (cudaError_t error = to_descriptor(*desc, extent, flags, &descriptor); error != cudaSuccess)
      return error;
    return to_runtime(
        cu.cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray*>(array), &descriptor, levels));
  });
}

SLUICE_CUDART_API cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  return with_context([&](const DriverTable& cu) {
    return array == nullptr ? CUDA_SUCCESS : cu.cuMipmappedArrayDestroy(to_mipmap(array));
  });
}

SLUICE_CUDART_API cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t* level,
                                                         cudaMipmappedArray_const_t array,
                                                         unsigned number) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMipmappedArrayGetLevel(reinterpret_cast<CUarray*>(level), to_mipmap(array), number);
  });
}

SLUICE_CUDART_API cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent,
                                               unsigned* flags, cudaArray_t array) {
  return with_context([&](const DriverTable& cu) {
    CUDA_ARRAY3D_DESCRIPTOR found{};
    if (CUresult result = cu.cuArray3DGetDescriptor_v2(&found, to_array(array));
        result != CUDA_SUCCESS)
      return result;
    if (desc != nullptr) *desc = describe(found.Format, found.NumChannels);
    if (extent != nullptr) *extent = {found.Width, found.Height, found.Depth};
    if (flags != nullptr) *flags = found.Flags;
    return CUDA_SUCCESS;
  });
}

SLUICE_CUDART_API cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* desc,
                                                 cudaArray_const_t array) {
  if (desc == nullptr) return record(cudaErrorInvalidValue);
  return cudaArrayGetInfo(desc, nullptr, nullptr, const_cast<cudaArray_t>(array));
}

SLUICE_CUDART_API cudaError_t cudaArrayGetPlane(cudaArray_t* plane, cudaArray_t array,
                                                unsigned number) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuArrayGetPlane(reinterpret_cast<CUarray*>(plane), to_array(array), number);
  });
}

SLUICE_CUDART_API cudaError_t cudaArrayGetMemoryRequirements(
    cudaArrayMemoryRequirements* requirements, cudaArray_t array, int device) {
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    return cu.cuArrayGetMemoryRequirements(
        same_layout<CUDA_ARRAY_MEMORY_REQUIREMENTS*>(requirements), to_array(array), handle);
  });
}

SLUICE_CUDART_API cudaError_t cudaMipmappedArrayGetMemoryRequirements(
    cudaArrayMemoryRequirements* requirements, cudaMipmappedArray_t array, int device) {
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    return cu.cuMipmappedArrayGetMemoryRequirements(
        same_layout<CUDA_ARRAY_MEMORY_REQUIREMENTS*>(requirements), to_mipmap(array), handle);
  });
}

SLUICE_CUDART_API cudaError_t cudaArrayGetSparseProperties(cudaArraySparseProperties* properties,
                                                           cudaArray_t array) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuArrayGetSparseProperties(same_layout<CUDA_ARRAY_SPARSE_PROPERTIES*>(properties),
                                         to_array(array));
  });
}

SLUICE_CUDART_API cudaError_t cudaMipmappedArrayGetSparseProperties(
    cudaArraySparseProperties* properties, cudaMipmappedArray_t array) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuMipmappedArrayGetSparseProperties(
        same_layout<CUDA_ARRAY_SPARSE_PROPERTIES*>(properties), to_mipmap(array));
  });
}

SLUICE_CUDART_API cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(
    std::size_t* width, const cudaChannelFormatDesc* desc, int device) {
  if (desc == nullptr) return record(cudaErrorInvalidValue);
  return with_device(device, [&](const DriverTable& cu, CUdevice handle) {
    const std::optional<CUarray_format> format = format_of(*desc);
    if (!format) return cudaErrorInvalidChannelDescriptor;
    return to_runtime(
        cu.cuDeviceGetTexture1DLinearMaxWidth(width, *format, channels_of(*desc), handle));
  });
}

SLUICE_CUDART_API cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                              cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
