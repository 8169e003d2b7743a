// Element formats of arrays and textures: bits per channel here, an enum and a channel count in the
// driver API.
#pragma once

#include "shim/cudart/runtime.h"

#include <optional>

namespace sluice::cudart {

/// Nothing for a description that no array can have.
std::optional<CUarray_format> format_of(const cudaChannelFormatDesc& desc) noexcept;
unsigned channels_of(const cudaChannelFormatDesc& desc) noexcept;
/// The other way; all zero (cudaChannelFormatKindNone) for formats of newer drivers.
cudaChannelFormatDesc describe(CUarray_format format, unsigned channels) noexcept;
bool is_float(CUarray_format format) noexcept;

}  // namespace sluice::cudart
