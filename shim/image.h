// Module images as the application hands them over: a bare address. How long one is follows from
// what it is.
#pragma once

#include "common/result.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace sluice::shim {

inline constexpr std::size_t kImageBytesMax = std::size_t{2} << 30;

/// The bytes of the image at `image`: a cubin (ELF) by its headers, a fatbin by its header, also
/// behind the wrapper that nvcc makes, else PTX text without its final zero. The result views the
/// application's memory. Err(kInvalidArgument) for a damaged or oversized one.
Result<std::span<const std::byte>> image_bytes(const void* image);

/// The file's content. Err(kNotFound) if it cannot be read.
Result<std::vector<std::byte>> read_image_file(const std::string& path);

}  // namespace sluice::shim
