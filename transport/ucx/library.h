// Loading UCX, or saying why it is not: only a program that uses RDMA has it in its process, and it
// finds its process as it was.
#pragma once

#include "common/result.h"
#include "transport/ucx/plugin.h"

#include <string>

namespace sluice::transport::ucx {

/// The oldest UCX that is used, that of the machine or of the container image.
inline constexpr unsigned kMajor = 1, kMinorMin = 12;

/// What UCX_TLS asks for: empty is RDMA; Err(kUnsupported) for transports that are not used (ud,
/// whose time limits abort the process, and everything that we do better).
Result<Lane> parse_lane(const std::string& ucx_tls);
Result<Lane> lane_from_environment();

/// Whether this host can take part: an RDMA device with an active port, or UCX_TLS=tcp. Loads
/// nothing; the error says what is missing.
Status check_host();

/// Loads UCX and libsluice_ucx.so, once in a process; a failure is remembered, too.
/// Err(kNotFound): not installed; Err(kVersion): too old.
Result<Plugin*> load();
/// The same with a given libsluice_ucx.so instead of that beside us, or in ../lib/sluice.
Result<Plugin*> load_from(const std::string& plugin_path);

/// For people: which devices would be used, after UCX was loaded; the error says why none.
Result<std::string> describe_host();

}  // namespace sluice::transport::ucx
