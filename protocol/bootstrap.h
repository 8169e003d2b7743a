// The frames of the bootstrap connection (the life line) and the first frame of a data connection.
// Tagged and versioned: a newer side may append fields, an older one ignores them. Encoded by
// protocol/bootstrap.cpp, fuzzed like every decoder.
//
//   shim -> broker   Hello      version, opcode table hash, tenant, token, who I am
//   broker -> shim   Welcome    session id, session key, devices
//                    Refusal    or: code, message
//   shim -> broker   Attach     on a second connection, with the session key; the broker hands that
//                               descriptor to the worker
//   broker -> shim   Attached
//   both             a TLS handshake     if Attach announced it
//   shim -> worker   SharedMemory        only if Attach announced it; carries the memory's
//   descriptor worker -> shim   SharedMemoryAnswer
//   worker -> shim   UcxOffer   only if Attach asked for it: where to connect, and the token
//   shim -> worker   UcxResult  once it is connected, or not (then this connection is used)
// After that, that connection carries wire records only, or nothing more if the memory was
// accepted: the records are there, and the connection tells each end whether the other lives. The
// first connection stays open, as the life line: FIN or RST = the client is gone; silence is left
// to TCP's keepalive, because a client that a debugger has stopped must live. On it travel, if both
// sides know the feature:
//   shim -> broker   Ping       whenever the shim likes; the server must show that it is alive
//   broker -> shim   Pong       to the newest Ping received
//   broker -> shim   Ending     why the server ends the session, or is about to
// A connection that is cut can be replaced by another one, which begins with
//   shim -> broker   Resume     which session, which of its connections
//   broker -> shim   Resumed    or Refusal; the life line goes on here. A data connection is handed
//                               to the worker, and both ends say how far they are
//                               (transport/resume/handover.h)
// Of an encrypted session: its life line is replaced inside TLS only. For its data connection the
// Resume in the clear says whose it is and nothing else; after Resumed comes a TLS handshake with
// the session's key, and then
//   shim -> worker   Resume     inside TLS: the one that counts
// A client that only looks asks with SliceQuery on a connection of its own (slice_status.h).
#pragma once

#include "common/result.h"
#include "protocol/slice_status.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sluice::wire {

using SessionKey = std::array<std::uint8_t, 32>;

/// Bits of feature_bits: what a side understands beyond the first five frames.
inline constexpr std::uint64_t kFeatureHeartbeat = 1;  ///< Ping, Pong
inline constexpr std::uint64_t kFeatureEnding = 2;     ///< Ending
/// In a Hello: the client only asks whether it would be admitted. The Welcome has session id 0 and
/// no devices.
inline constexpr std::uint64_t kFeatureCheckOnly = 4;
/// The server's workers can take their records from shared memory.
inline constexpr std::uint64_t kFeatureSharedMemory = 8;
/// The server's workers can take bulk data from lanes.
inline constexpr std::uint64_t kFeatureLanes = 16;
inline constexpr std::uint8_t kLaneCountMax = 4;
/// Data connections can be encrypted with the session key.
inline constexpr std::uint64_t kFeatureTls = 32;
/// Connections of a session can be replaced: Resume.
inline constexpr std::uint64_t kFeatureResume = 64;
/// The server's workers can be asked for a connection over UCX.
inline constexpr std::uint64_t kFeatureUcx = 128;
/// Those of an encrypted session, too.
inline constexpr std::uint64_t kFeatureResumeEncrypted = 256;
/// With kFeatureCheckOnly in a Hello: the client will ask for its slice's status. The Welcome has
/// session id 0 and no devices, and if it has this bit, too, the connection stays open for
/// SliceQuery. An older server closes it, as for any other check.
inline constexpr std::uint64_t kFeatureSliceStatus = 512;

/// The server lowers a session's slice as Hello says.
inline constexpr std::uint64_t kFeatureLimits = 1024;

struct Hello {
  std::uint32_t protocol_version = 0;
  std::uint64_t opcode_table_hash = 0;
  std::uint64_t feature_bits = 0;
  std::string tenant;
  std::string token;
  std::int32_t cuda_version = 0;  ///< of the shim, e.g. 13000
  std::int32_t pid = 0;
  std::string host, program;
  std::string visible_devices;  ///< CUDA_VISIBLE_DEVICES as the client saw it; applied by the shim
  /// Lines NAME=VALUE of the client's environment that lower its slice; the server reads them
  /// (server/broker/client_limits.h).
  std::string limits;

  bool operator==(const Hello&) const = default;
};

struct DeviceRecord {
  std::string name;
  std::array<std::uint8_t, 16> uuid{};
  std::string pci_bus_id;
  std::uint64_t total_bytes = 0;  ///< the slice, not the hardware
  /// CUdevice_attribute, value: all the driver answers.
  std::vector<std::pair<std::int32_t, std::int32_t>> attributes;

  bool operator==(const DeviceRecord&) const = default;
};

struct Welcome {
  std::uint32_t protocol_version = 0;
  std::uint64_t feature_bits = 0;
  std::uint64_t session_id = 0;
  SessionKey session_key{};
  std::int32_t driver_version = 0;  ///< min(shim, server driver)
  std::int32_t worker_pid = 0;
  std::string node;
  std::vector<DeviceRecord> devices;
  /// What the server advises: a Ping this often, and the server taken for dead after that long
  /// without a byte from it on the life line. 0: no heartbeat.
  std::uint32_t heartbeat_ms = 0, heartbeat_timeout_ms = 0;
  std::uint64_t server_instance = 0;  ///< another one after every start of the server
  std::uint32_t grace_ms = 0;         ///< for so long a session outlives its connections
  std::uint8_t resumes_on_reset = 0;  ///< 1: a reset cuts a connection, it does not end it
  std::string release;                ///< of the server; empty: an older one
  std::uint64_t wall_clock_us = 0;    ///< since 1970 when this was sent; 0: an older server

  bool operator==(const Welcome&) const = default;
};

enum class RefusalCode : std::uint16_t {
  kVersion = 1,
  kUnknownTenant,
  kWrongToken,
  kTenantFull,
  kServer,
  kProtocol,
  kUnknownSession,  ///< to Resume: there is nothing left of it
};
struct Refusal {
  RefusalCode code = RefusalCode::kServer;
  std::string message;  ///< names the cause and the fix

  bool operator==(const Refusal&) const = default;
};

struct Attach {
  SessionKey session_key{};
  std::uint8_t offers_shared_memory = 0;  ///< 1: SharedMemory follows after Attached
  /// 1: after Attached both ends prove the key to each other in a TLS handshake; it is not in this
  /// frame, which says only whose session is meant.
  std::uint8_t is_encrypted = 0;
  std::uint64_t session_id = 0;
  std::uint8_t is_resumable = 0;  ///< 1: both ends can replace this connection
  std::uint8_t wants_ucx = 0;     ///< 1: the worker's UcxOffer follows after Attached
  /// 0: the connection for records; 1, 2 ...: a lane for bulk data, attached after that one.
  /// Of an encrypted session in any order, each a connection of its own to prove.
  std::uint8_t lane = 0;
  std::uint8_t lane_count = 0;  ///< that the session has in all

  bool operator==(const Attach&) const = default;
};
/// broker -> shim on the data connection, before the first record.
struct Attached {
  bool operator==(const Attached&) const = default;
};

/// The memory is laid out as transport/shm/layout.h says in that version.
struct SharedMemory {
  std::uint32_t layout_version = 0;

  bool operator==(const SharedMemory&) const = default;
};
struct SharedMemoryAnswer {
  std::uint8_t is_accepted = 0;
  std::string message;  ///< why not

  bool operator==(const SharedMemoryAnswer&) const = default;
};

/// Where the worker listens over UCX, and what every message there must carry.
struct UcxOffer {
  std::uint8_t is_accepted = 0;
  std::string message;  ///< why not
  std::string host;     ///< numeric
  std::uint16_t port = 0;
  std::array<std::uint8_t, 16> token{};
  std::uint64_t staging_address = 0;  ///< of memory that the client may put into and get from
  std::uint64_t staging_bytes = 0;
  std::string staging_key;  ///< UCX's, for that memory; empty: there is none

  bool operator==(const UcxOffer&) const = default;
};
struct UcxResult {
  std::uint8_t is_connected = 0;
  std::string message;            ///< why not
  std::uint8_t uses_staging = 0;  ///< 1: bulk data goes through the memory that was offered

  bool operator==(const UcxResult&) const = default;
};

struct Ping {
  std::uint64_t number = 0;

  bool operator==(const Ping&) const = default;
};
struct Pong {
  std::uint64_t number = 0;  ///< of the Ping
  /// Since the worker process last said anything to the broker; it reports at least once a second
  /// while it is alive.
  std::uint32_t worker_silent_ms = 0;

  bool operator==(const Pong&) const = default;
};

enum class EndingCode : std::uint16_t {
  kServer = 1,  ///< the server stops
  kIdle,        ///< idle_timeout of the tenant
  kDuration,    ///< max_duration of the tenant
  kKilled,      ///< by an administrator
  kWorker,      ///< the worker process died
};
struct Ending {
  EndingCode code = EndingCode::kServer;
  std::string message;      ///< one line for the user: what happened and what to do
  std::uint32_t in_ms = 0;  ///< 0: now, the connections close next; else a notice only

  bool operator==(const Ending&) const = default;
};

/// The first frame of a connection that takes the place of another one of the session.
struct Resume {
  std::uint64_t session_id = 0;
  SessionKey session_key{};
  std::uint64_t server_instance = 0;
  /// Which: the life line, or one of those for data.
  enum class Line : std::uint32_t { kLifeLine = 0, kData = 1 } line = Line::kLifeLine;
  /// Grows: one that arrives behind a newer one comes too late.
  std::uint64_t attempt = 0;
  std::uint8_t lane = 0;  ///< with kData, as in Attach
  /// 1: no key is in this frame. In the clear it only names the session; inside TLS the connection
  /// has proved the key.
  std::uint8_t is_encrypted = 0;

  bool operator==(const Resume&) const = default;
};
struct Resumed {
  bool operator==(const Resumed&) const = default;
};

using Frame =
    std::variant<Hello, Welcome, Refusal, Attach, Attached, Ping, Pong, Ending, SharedMemory,
                 SharedMemoryAnswer, Resume, Resumed, UcxOffer, UcxResult, SliceQuery, SliceStatus>;
inline constexpr std::size_t kFrameBytesMax = 256 * 1024;
inline constexpr std::size_t kDeviceCountMax = 256;      ///< devices in one Welcome
inline constexpr std::size_t kAttributeCountMax = 1024;  ///< attributes of one device

/// A frame over kFrameBytesMax is encoded all the same; write_frame() and the receiver refuse it.
std::vector<std::byte> encode_frame(const Frame& frame);
/// Err(kProtocol) for anything malformed. `bytes` is one whole frame as delimited by frame_bytes().
Result<Frame> decode_frame(std::span<const std::byte> bytes);
/// Length of the frame that starts in `prefix` (>= 8 bytes given), or Err(kProtocol) for bad magic
/// or > kFrameBytesMax.
Result<std::size_t> frame_bytes(std::span<const std::byte> prefix);
inline constexpr std::size_t kFramePrefixBytes = 8;

}  // namespace sluice::wire
