// What the files about graph nodes share: node parameters in the driver's terms and back.
#pragma once

#include "shim/cudart/copy_box.h"
#include "shim/cudart/launch.h"

namespace sluice::cudart {

cudaError_t to_driver_kernel(const DriverTable& cu, const cudaKernelNodeParams& params,
                             CUDA_KERNEL_NODE_PARAMS* to) noexcept;

/// A copy of `bytes` bytes as the box that copy nodes are described by.
cudaMemcpy3DParms line_copy(void* to, const void* from, std::size_t bytes,
                            cudaMemcpyKind kind) noexcept;

/// A copy or fill node takes the context that is current.
template <class Body>
cudaError_t with_current(Body&& body) {
  return with_context([&](const DriverTable& cu) {
    CUcontext context = nullptr;
    CUresult result = cu.cuCtxGetCurrent(&context);
    return result == CUDA_SUCCESS ? to_runtime(body(cu, context)) : to_runtime(result);
  });
}

}  // namespace sluice::cudart
