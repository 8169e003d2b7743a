// Shared by everything that launches or describes a launch.
#pragma once

#include "shim/cudart/registry.h"

namespace sluice::cudart {

/// The driver takes a context-free kernel wherever it takes a function to launch.
inline CUfunction to_function(CUkernel kernel) noexcept {
  return reinterpret_cast<CUfunction>(kernel);
}

CUlaunchConfig to_driver_config(const cudaLaunchConfig_t& config) noexcept;

/// True if no device limit allows this shape: the driver's "invalid value" then is a configuration.
bool exceeds_device(const DriverTable& cu, const dim3& grid, const dim3& block) noexcept;
cudaError_t launch_error(const DriverTable& cu, CUresult result, const dim3& grid,
                         const dim3& block) noexcept;

}  // namespace sluice::cudart
