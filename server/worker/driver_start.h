// Loads the libcuda.so.1 that a worker calls and asks it for everything a client may want to know.
#pragma once

#include "driver/driver_table.h"
#include "server/link.h"

#include <string>

namespace sluice::server {

/// Loads `path` for good (drivers do not survive dlclose), fills the table, initialises the driver
/// and describes its devices. The error names the path and the cause.
Result<link::Ready> start_driver(const std::string& path, DriverTable* driver);

}  // namespace sluice::server
