// A device's UUID as CUDA's tools write it, "GPU-01234567-89ab-...": in CUDA_VISIBLE_DEVICES, NVML
// and tables.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace sluice {

std::string gpu_uuid_text(const std::array<std::uint8_t, 16>& uuid);

}  // namespace sluice
