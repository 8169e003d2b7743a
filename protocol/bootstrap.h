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
// After Attached, that connection carries wire records only. The first connection stays open:
// EOF = the client is gone.
#pragma once

#include "common/result.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sluice::wire {

using SessionKey = std::array<std::uint8_t, 32>;

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

  bool operator==(const Welcome&) const = default;
};

enum class RefusalCode : std::uint16_t {
  kVersion = 1,
  kUnknownTenant,
  kWrongToken,
  kTenantFull,
  kServer,
  kProtocol
};
struct Refusal {
  RefusalCode code = RefusalCode::kServer;
  std::string message;  ///< names the cause and the fix

  bool operator==(const Refusal&) const = default;
};

struct Attach {
  SessionKey session_key{};

  bool operator==(const Attach&) const = default;
};
/// broker -> shim on the data connection, before the first record.
struct Attached {
  bool operator==(const Attached&) const = default;
};

using Frame = std::variant<Hello, Welcome, Refusal, Attach, Attached>;
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
