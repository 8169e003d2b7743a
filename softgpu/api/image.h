// From what a program hands to a load function to PTX text: plain PTX, a fatbin, its wrapper, or a
// cubin.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice::softgpu {

/// CUDA_ERROR_NO_BINARY_FOR_GPU: nothing but SASS; INVALID_IMAGE: no image at all. `arch_max` = 121
/// for compute capability 12.1. `bytes_max` bounds what is read where the memory's length is known
/// (a file); text ends at a zero within it.
CUresult ptx_of_image(const void* image, int arch_max, std::string* ptx,
                      std::size_t bytes_max = SIZE_MAX);

}  // namespace sluice::softgpu
