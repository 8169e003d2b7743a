// Texture and surface objects. Descriptions are read and written field by field: CUDA 13's structs
// have more room at their ends than the structs of programs that were built for CUDA 12.
#include "shim/cudart/array_format.h"
#include "shim/cudart/copy_box.h"
#include "shim/cudart/older/layouts.h"

#include <cstring>

using namespace sluice::cudart;
using sluice::DriverTable;

namespace {

CUmipmappedArray to_mipmap(cudaMipmappedArray_t array) {
  return reinterpret_cast<CUmipmappedArray>(array);
}

CUarray_format format_of_array(const DriverTable& cu, CUarray array) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  return cu.cuArray3DGetDescriptor_v2(&descriptor, array) == CUDA_SUCCESS
             ? descriptor.Format
             : CU_AD_FORMAT_UNSIGNED_INT8;
}

/// Also says what format the elements have.
cudaError_t to_driver_resource(const DriverTable& cu, const cudaResourceDesc& from,
                               CUDA_RESOURCE_DESC* to, CUarray_format* format) {
  *to = {};
  if (from.resType == cudaResourceTypeArray) {
    to->resType = CU_RESOURCE_TYPE_ARRAY;
    to->res.array.hArray = to_array(from.res.array.array);
    *format = format_of_array(cu, to->res.array.hArray);
    return cudaSuccess;
  }
  if (from.resType == cudaResourceTypeMipmappedArray) {
    to->resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    to->res.mipmap.hMipmappedArray = to_mipmap(from.res.mipmap.mipmap);
    CUarray level = nullptr;
    if (cu.cuMipmappedArrayGetLevel(&level, to->res.mipmap.hMipmappedArray, 0) == CUDA_SUCCESS)
      *format = format_of_array(cu, level);
    return cudaSuccess;
  }
  const bool is_linear = from.resType == cudaResourceTypeLinear;
  if (!is_linear && from.resType != cudaResourceTypePitch2D) return cudaErrorInvalidValue;
  const cudaChannelFormatDesc& desc = is_linear ? from.res.linear.desc : from.res.pitch2D.desc;
  const std::optional<CUarray_format> found = format_of(desc);
  if (!found) return cudaErrorInvalidChannelDescriptor;
  *format = *found;
  if (is_linear) {
    to->resType = CU_RESOURCE_TYPE_LINEAR;
    to->res.linear.devPtr = address(from.res.linear.devPtr);
    to->res.linear.format = *found;
    to->res.linear.numChannels = channels_of(desc);
    to->res.linear.sizeInBytes = from.res.linear.sizeInBytes;
    return cudaSuccess;
  }
  to->resType = CU_RESOURCE_TYPE_PITCH2D;
  to->res.pitch2D.devPtr = address(from.res.pitch2D.devPtr);
  to->res.pitch2D.format = *found;
  to->res.pitch2D.numChannels = channels_of(desc);
  to->res.pitch2D.width = from.res.pitch2D.width;
  to->res.pitch2D.height = from.res.pitch2D.height;
  to->res.pitch2D.pitchInBytes = from.res.pitch2D.pitchInBytes;
  return cudaSuccess;
}

void from_driver_resource(const CUDA_RESOURCE_DESC& from, cudaResourceDesc* to) {
  std::memset(static_cast<void*>(to), 0, v12::kResourceDescBytes);
  switch (from.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      to->resType = cudaResourceTypeArray;
      to->res.array.array = reinterpret_cast<cudaArray_t>(from.res.array.hArray);
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      to->resType = cudaResourceTypeMipmappedArray;
      to->res.mipmap.mipmap =
          reinterpret_cast<cudaMipmappedArray_t>(from.res.mipmap.hMipmappedArray);
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      to->resType = cudaResourceTypeLinear;
      to->res.linear.devPtr = pointer(from.res.linear.devPtr);
      to->res.linear.desc = describe(from.res.linear.format, from.res.linear.numChannels);
      to->res.linear.sizeInBytes = from.res.linear.sizeInBytes;
      break;
    case CU_RESOURCE_TYPE_PITCH2D:
      to->resType = cudaResourceTypePitch2D;
      to->res.pitch2D.devPtr = pointer(from.res.pitch2D.devPtr);
      to->res.pitch2D.desc = describe(from.res.pitch2D.format, from.res.pitch2D.numChannels);
      to->res.pitch2D.width = from.res.pitch2D.width;
      to->res.pitch2D.height = from.res.pitch2D.height;
      to->res.pitch2D.pitchInBytes = from.res.pitch2D.pitchInBytes;
      break;
  }
}

/// `from` lacks seamlessCubemap if it is CUDA 11's.
CUDA_TEXTURE_DESC to_driver_texture(const cudaTextureDesc& from, CUarray_format format,
                                    bool has_seamless) {
  CUDA_TEXTURE_DESC to{};
  for (int i = 0; i < 3; ++i) to.addressMode[i] = static_cast<CUaddress_mode>(from.addressMode[i]);
  to.filterMode = static_cast<CUfilter_mode>(from.filterMode);
  // Floats are never converted.
  if (from.readMode == cudaReadModeElementType && !is_float(format))
    to.flags |= CU_TRSF_READ_AS_INTEGER;
  if (from.normalizedCoords != 0) to.flags |= CU_TRSF_NORMALIZED_COORDINATES;
  if (from.sRGB != 0) to.flags |= CU_TRSF_SRGB;
  if (from.disableTrilinearOptimization != 0) to.flags |= CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;
  if (has_seamless && from.seamlessCubemap != 0) to.flags |= CU_TRSF_SEAMLESS_CUBEMAP;
  to.maxAnisotropy = from.maxAnisotropy;
  to.mipmapFilterMode = static_cast<CUfilter_mode>(from.mipmapFilterMode);
  to.mipmapLevelBias = from.mipmapLevelBias;
  to.minMipmapLevelClamp = from.minMipmapLevelClamp;
  to.maxMipmapLevelClamp = from.maxMipmapLevelClamp;
  std::memcpy(to.borderColor, from.borderColor, sizeof to.borderColor);
  return to;
}

CUDA_RESOURCE_VIEW_DESC to_driver_view(const cudaResourceViewDesc& from) {
  CUDA_RESOURCE_VIEW_DESC to{};
  to.format = static_cast<CUresourceViewFormat>(from.format);
  to.width = from.width;
  to.height = from.height;
  to.depth = from.depth;
  to.firstMipmapLevel = from.firstMipmapLevel;
  to.lastMipmapLevel = from.lastMipmapLevel;
  to.firstLayer = from.firstLayer;
  to.lastLayer = from.lastLayer;
  return to;
}

cudaError_t create(cudaTextureObject_t* texture, const cudaResourceDesc* resource,
                   const cudaTextureDesc* desc, const cudaResourceViewDesc* view,
                   bool has_seamless) {
  if (texture == nullptr || resource == nullptr || desc == nullptr)
    return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_RESOURCE_DESC driver_resource;
    CUarray_format format = CU_AD_FORMAT_UNSIGNED_INT8;
    if (cudaError_t error = to_driver_resource(cu, *resource, &driver_resource, &format);
        error != cudaSuccess)
      return error;
    const CUDA_TEXTURE_DESC driver_desc = to_driver_texture(*desc, format, has_seamless);
    CUDA_RESOURCE_VIEW_DESC driver_view{};
    if (view != nullptr) driver_view = to_driver_view(*view);
    return to_runtime(cu.cuTexObjectCreate(texture, &driver_resource, &driver_desc,
                                           view != nullptr ? &driver_view : nullptr));
  });
}

/// Textures of floats carry no flag, see to_driver_texture.
bool reads_floats(const DriverTable& cu, cudaTextureObject_t texture) {
  CUDA_RESOURCE_DESC driver_resource{};
  cudaResourceDesc resource{};
  CUarray_format format = CU_AD_FORMAT_UNSIGNED_INT8;
  if (cu.cuTexObjectGetResourceDesc(&driver_resource, texture) != CUDA_SUCCESS) return false;
  from_driver_resource(driver_resource, &resource);
  return to_driver_resource(cu, resource, &driver_resource, &format) == cudaSuccess &&
         is_float(format);
}

cudaError_t describe_texture(cudaTextureDesc* to, cudaTextureObject_t texture, bool has_seamless) {
  if (to == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_TEXTURE_DESC from{};
    if (CUresult result = cu.cuTexObjectGetTextureDesc(&from, texture); result != CUDA_SUCCESS)
      return result;
    std::memset(static_cast<void*>(to), 0,
                has_seamless ? sizeof *to : sluice::cudart::v11::kTextureDescBytes);
    for (int i = 0; i < 3; ++i)
      to->addressMode[i] = static_cast<cudaTextureAddressMode>(from.addressMode[i]);
    to->filterMode = static_cast<cudaTextureFilterMode>(from.filterMode);
    to->readMode = (from.flags & CU_TRSF_READ_AS_INTEGER) != 0 || reads_floats(cu, texture)
                       ? cudaReadModeElementType
                       : cudaReadModeNormalizedFloat;
    to->sRGB = (from.flags & CU_TRSF_SRGB) != 0;
    to->normalizedCoords = (from.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
    to->disableTrilinearOptimization = (from.flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0;
    if (has_seamless) to->seamlessCubemap = (from.flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0;
    to->maxAnisotropy = from.maxAnisotropy;
    to->mipmapFilterMode = static_cast<cudaTextureFilterMode>(from.mipmapFilterMode);
    to->mipmapLevelBias = from.mipmapLevelBias;
    to->minMipmapLevelClamp = from.minMipmapLevelClamp;
    to->maxMipmapLevelClamp = from.maxMipmapLevelClamp;
    std::memcpy(to->borderColor, from.borderColor, sizeof to->borderColor);
    return CUDA_SUCCESS;
  });
}

}  // namespace

SLUICE_CUDART_FORM(12, cudaCreateTextureObject)
(cudaTextureObject_t* texture, const cudaResourceDesc* resource, const cudaTextureDesc* desc,
 const cudaResourceViewDesc* view) {
  return create(texture, resource, desc, view, true);
}
SLUICE_CUDART_FORM(11, cudaCreateTextureObject)
(cudaTextureObject_t* texture, const cudaResourceDesc* resource, const cudaTextureDesc* desc,
 const cudaResourceViewDesc* view) {
  return create(texture, resource, desc, view, false);
}

SLUICE_CUDART_API cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texture) {
  return with_context([&](const DriverTable& cu) { return cu.cuTexObjectDestroy(texture); });
}

SLUICE_CUDART_API cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* desc,
                                                               cudaTextureObject_t texture) {
  if (desc == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_RESOURCE_DESC from{};
    CUresult result = cu.cuTexObjectGetResourceDesc(&from, texture);
    if (result == CUDA_SUCCESS) from_driver_resource(from, desc);
    return result;
  });
}

SLUICE_CUDART_FORM(12, cudaGetTextureObjectTextureDesc)
(cudaTextureDesc* desc, cudaTextureObject_t texture) {
  return describe_texture(desc, texture, true);
}
SLUICE_CUDART_FORM(11, cudaGetTextureObjectTextureDesc)
(cudaTextureDesc* desc, cudaTextureObject_t texture) {
  return describe_texture(desc, texture, false);
}

SLUICE_CUDART_API cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc* desc,
                                                                   cudaTextureObject_t texture) {
  if (desc == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_RESOURCE_VIEW_DESC from{};
    CUresult result = cu.cuTexObjectGetResourceViewDesc(&from, texture);
    if (result != CUDA_SUCCESS) return result;
    std::memset(static_cast<void*>(desc), 0, v12::kResourceViewDescBytes);
    desc->format = static_cast<cudaResourceViewFormat>(from.format);
    desc->width = from.width;
    desc->height = from.height;
    desc->depth = from.depth;
    desc->firstMipmapLevel = from.firstMipmapLevel;
    desc->lastMipmapLevel = from.lastMipmapLevel;
    desc->firstLayer = from.firstLayer;
    desc->lastLayer = from.lastLayer;
    return result;
  });
}

SLUICE_CUDART_API cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* surface,
                                                      const cudaResourceDesc* resource) {
  if (surface == nullptr || resource == nullptr) return record(cudaErrorInvalidValue);
  // Surfaces exist over arrays only.
  if (resource->resType != cudaResourceTypeArray) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_RESOURCE_DESC driver_resource;
    CUarray_format format{};
    if (cudaError_t error = to_driver_resource(cu, *resource, &driver_resource, &format);
        error != cudaSuccess)
      return error;
    return to_runtime(cu.cuSurfObjectCreate(surface, &driver_resource));
  });
}

SLUICE_CUDART_API cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t surface) {
  return with_context([&](const DriverTable& cu) { return cu.cuSurfObjectDestroy(surface); });
}

SLUICE_CUDART_API cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* desc,
                                                               cudaSurfaceObject_t surface) {
  if (desc == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUDA_RESOURCE_DESC from{};
    CUresult result = cu.cuSurfObjectGetResourceDesc(&from, surface);
    if (result == CUDA_SUCCESS) from_driver_resource(from, desc);
    return result;
  });
}
