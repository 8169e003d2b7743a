// What a driver that offers a version of CUDA is called by those who ask for the driver's own
// version: NVML and its look-alikes.
#pragma once

#include <string>

namespace sluice {

/// "580.00" for CUDA 13.0 (13000): the branch of NVIDIA's drivers that brought it. Programs compare
/// driver versions to learn what the driver API can do, and that is what ours can.
std::string driver_version_text(int cuda_version);

}  // namespace sluice
