// Arrays: formats are described by channels here and by an enum in the driver API.
#include "shim/cudart/copy_box.h"

#include <optional>

using namespace sluice::cudart;
using sluice::DriverTable;

namespace {

std::optional<CUarray_format> format_of(const cudaChannelFormatDesc& desc) {
  switch (desc.f) {
    case cudaChannelFormatKindSigned:
      if (desc.x == 8) return CU_AD_FORMAT_SIGNED_INT8;
      if (desc.x == 16) return CU_AD_FORMAT_SIGNED_INT16;
      if (desc.x == 32) return CU_AD_FORMAT_SIGNED_INT32;
      return {};
    case cudaChannelFormatKindUnsigned:
      if (desc.x == 8) return CU_AD_FORMAT_UNSIGNED_INT8;
      if (desc.x == 16) return CU_AD_FORMAT_UNSIGNED_INT16;
      if (desc.x == 32) return CU_AD_FORMAT_UNSIGNED_INT32;
      return {};
    case cudaChannelFormatKindFloat:
      if (desc.x == 16) return CU_AD_FORMAT_HALF;
      if (desc.x == 32) return CU_AD_FORMAT_FLOAT;
      return {};
    default:
      return {};
  }
}

unsigned channels_of(const cudaChannelFormatDesc& desc) {
  return 1u + (desc.y != 0) + (desc.z != 0) + (desc.w != 0);
}

cudaError_t create(cudaArray_t* array, const cudaChannelFormatDesc* desc, const cudaExtent& extent,
                   unsigned flags) {
  if (array == nullptr || desc == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    const std::optional<CUarray_format> format = format_of(*desc);
    if (!format) return cudaErrorInvalidChannelDescriptor;
    const CUDA_ARRAY3D_DESCRIPTOR descriptor = {.Width = extent.width,
                                                .Height = extent.height,
                                                .Depth = extent.depth,
                                                .Format = *format,
                                                .NumChannels = channels_of(*desc),
                                                .Flags = flags};
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

SLUICE_CUDART_API cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                              cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
