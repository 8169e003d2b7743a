// What the driver says that this process has of a device's memory.
#pragma once

#include "driver/driver_table.h"
#include "server/worker/memory_account.h"

#include <string>

namespace sluice::server {

/// Whether the driver, which is loaded already, counts the memory of its own process (softgpu
/// does).
bool measures_itself(const std::string& driver_path);
/// From such a driver, else from NVML. Empty: neither is there; what modules and contexts take is
/// then not told apart. `driver` outlives it.
MemoryAccount::ProcessBytes process_bytes_of(const std::string& driver_path,
                                             const DriverTable& driver);

}  // namespace sluice::server
