// cudaMemcpy3DParms in the driver's terms; graph nodes need it too.
#pragma once

#include "shim/cudart/runtime.h"

namespace sluice::cudart {

/// Extents and positions count elements where an array takes part, else bytes.
cudaError_t to_driver_copy(const DriverTable& cu, const cudaMemcpy3DParms& params,
                           CUDA_MEMCPY3D* copy) noexcept;

/// The other way, for copies that to_driver_copy made or that were captured.
cudaError_t from_driver_copy(const DriverTable& cu, const CUDA_MEMCPY3D& copy,
                             cudaMemcpy3DParms* params) noexcept;

/// Bytes of one element of an array.
CUresult array_element_bytes(const DriverTable& cu, CUarray array, std::size_t* bytes) noexcept;

inline CUarray to_array(cudaArray_const_t array) noexcept {
  return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array));
}

}  // namespace sluice::cudart
