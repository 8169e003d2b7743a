// What the client library tells about the session of its process, for tools that load it: libcuda's
// only exported names that are not CUDA's.
#pragma once

#include <cstdint>

namespace sluice::wire {

inline constexpr const char* kSessionReportSymbol = "sluice_session_report";
/// One JSON object; it stays until the next call, which must not be made by two threads at once.
///   error       why there is no session, or null
///   not_used    [{"transport", "why"}]: those that were tried, or thought of, and given up
/// and with a session
///   server, node, server_release, release, transport, session, worker_pid, devices
///   protocol_version, opcode_table_hash, feature_bits, driver_version, cuda_version
///   socket      the descriptor in this process that the records travel through, or -1
///   round_trips how often the process has waited for the server so far
///   resumable   whether its connections can be replaced
using SessionReportFunction = const char* (*)();

inline constexpr const char* kSpareBytesSymbol = "sluice_spare_bytes";
/// What the session of this process keeps of the server's device `device` and no allocation is in;
/// `*session` is its number, 0: there is none. Any thread.
using SpareBytesFunction = std::uint64_t (*)(std::uint32_t device, std::uint64_t* session);

}  // namespace sluice::wire
