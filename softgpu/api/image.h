// From what a program hands to a load function to PTX text: plain PTX, a fatbin, its wrapper, or a cubin.
#pragma once

#include <cuda.h>

#include <string>

namespace sluice::softgpu {

/// CUDA_ERROR_NO_BINARY_FOR_GPU: nothing but SASS; INVALID_IMAGE: no image at all. `arch_max` = 121 for compute capability 12.1.
CUresult ptx_of_image(const void* image, int arch_max, std::string* ptx);

}  // namespace sluice::softgpu
