#include "shim/cudart/array_format.h"

namespace sluice::cudart {

std::optional<CUarray_format> format_of(const cudaChannelFormatDesc& desc) noexcept {
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

unsigned channels_of(const cudaChannelFormatDesc& desc) noexcept {
  return 1u + (desc.y != 0) + (desc.z != 0) + (desc.w != 0);
}

cudaChannelFormatDesc describe(CUarray_format format, unsigned channels) noexcept {
  struct Row {
    CUarray_format format;
    int bits;
    cudaChannelFormatKind kind;
  };
  constexpr Row kRows[] = {{CU_AD_FORMAT_UNSIGNED_INT8, 8, cudaChannelFormatKindUnsigned},
                           {CU_AD_FORMAT_UNSIGNED_INT16, 16, cudaChannelFormatKindUnsigned},
                           {CU_AD_FORMAT_UNSIGNED_INT32, 32, cudaChannelFormatKindUnsigned},
                           {CU_AD_FORMAT_SIGNED_INT8, 8, cudaChannelFormatKindSigned},
                           {CU_AD_FORMAT_SIGNED_INT16, 16, cudaChannelFormatKindSigned},
                           {CU_AD_FORMAT_SIGNED_INT32, 32, cudaChannelFormatKindSigned},
                           {CU_AD_FORMAT_HALF, 16, cudaChannelFormatKindFloat},
                           {CU_AD_FORMAT_FLOAT, 32, cudaChannelFormatKindFloat}};
  for (const Row& row : kRows)
    if (row.format == format)
      return {row.bits, channels > 1 ? row.bits : 0, channels > 2 ? row.bits : 0,
              channels > 3 ? row.bits : 0, row.kind};
  return {0, 0, 0, 0, cudaChannelFormatKindNone};
}

bool is_float(CUarray_format format) noexcept {
  return format == CU_AD_FORMAT_HALF || format == CU_AD_FORMAT_FLOAT;
}

}  // namespace sluice::cudart
