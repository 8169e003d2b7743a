// The private connection between the broker and one of its workers: a SOCK_SEQPACKET pair, one
// message per packet, both ends from the same build. The worker asks, the broker answers in order;
// start, attach and stop come from the broker.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "protocol/bootstrap.h"
#include "server/memory_kind.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace sluice::server::link {

// ---- broker -> worker
/// As session: there will be none, the broker wants to know the devices. The worker ends by itself
/// once it has said them.
inline constexpr std::uint64_t kInventorySession = 0;
struct Start {
  std::string driver_path;  ///< the libcuda.so.1 to load
  std::uint64_t session_id = 0;
  std::string tenant;
  std::vector<std::uint64_t>
      memory_limit_bytes;  ///< per device of the session; 0 = the device's own size
  wire::SessionKey session_key{};
  bool uses_io_uring = false;
};
/// Before Start; carries one of the three descriptors by which the session gets its turns on the
/// devices (server/turns/pages.h).
struct TurnPart {
  enum class Part : std::uint8_t { kGrants, kUses, kBell } part = Part::kGrants;
};
struct AttachData {                   ///< carries the data connection's descriptor
  bool offers_shared_memory = false;  ///< the client's next frame on it is SharedMemory
  /// Whoever is at the other end has named the session and proved nothing: that is done in a TLS
  /// handshake with the session key, and DataReady follows it. There may be more than one such.
  bool is_encrypted = false;
  bool is_resumable = false;    ///< ResumeData may replace it
  bool survives_reset = false;  ///< a reset is a cut, not the end
  bool wants_ucx = false;       ///< the client's next frame on it answers a UcxOffer
  std::uint8_t lane = 0;        ///< 0: for records; else for bulk data
  std::uint8_t lane_count = 0;  ///< that the session has in all; they come in any order
};
struct Answer {  ///< to the oldest unanswered Charge or QueryMemory
  bool is_granted = false;
  std::uint64_t used_bytes = 0;  ///< by the tenant on that device, after the charge
  std::uint64_t limit_bytes = 0;
};
/// Carries the descriptor of a connection that takes a data connection's place. It supersedes one
/// that came before.
struct ResumeData {
  /// As in AttachData: only one that has proved the key supersedes anything. ResumeTaken answers.
  bool is_encrypted = false;
  std::uint8_t lane = 0;  ///< as in AttachData
};
struct Stop {};  ///< the session ends: send the last Stats and exit

// ---- worker -> broker
struct Ready {  ///< answers Start; the driver is loaded and initialised
  std::int32_t driver_version = 0;
  std::vector<wire::DeviceRecord> devices;
  bool measures_itself = false;  ///< the driver counts the process's memory; Measured tells
};
struct Failed {
  std::string message;
};  ///< answers Start: e.g. "no libcuda.so.1 at ..."
/// Before a driver allocation; behind it where its size cannot be known before.
struct Charge {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::kData;
};
struct Refund {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::kData;
};  ///< after a free or a failed allocation; no answer
/// So much memory the worker has now of a kind that is not asked for: what the driver says that the
/// process has beyond all charges (kLibrary), or kHostPinned. No answer.
struct Measured {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::kLibrary;
};
/// Another session of the tenant is short of memory of some device: the client shall give back what
/// it keeps and does not use. RecallDone answers, behind the refunds; a client that is busy with
/// itself may not.
struct Recall {};
struct RecallDone {};
struct Spare {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;
};  ///< so much of what the session was charged its client keeps and does not use
struct QueryMemory {
  std::uint32_t device = 0;
};
/// Cumulative; sent every 500 ms while changing, else every second as a sign of life, and last
/// before exit.
struct Stats {
  std::uint64_t calls = 0;                    ///< records executed
  std::uint64_t waits = 0;                    ///< of these, answered round trips
  std::uint64_t bytes_in = 0, bytes_out = 0;  ///< on the data channel
  std::uint64_t gpu_us = 0;                   ///< device busy time measured with events
  std::uint64_t memory_peak_bytes = 0;
  std::uint64_t pending_calls = 0;  ///< round trips whose answer is still due: not idle
};

struct DataReady {  ///< an encrypted data connection has proved to be the client's
  bool is_resumable = false;
};
/// The worker has taken over what came with an encrypted ResumeData: another one may come. So
/// strangers, however many, never fill the link.
struct ResumeTaken {};

using Message =
    std::variant<Start, AttachData, Answer, Ready, Failed, Charge, Refund, QueryMemory, Stats, Stop,
                 DataReady, ResumeData, ResumeTaken, TurnPart, Recall, RecallDone, Spare, Measured>;
inline constexpr std::size_t kMessageBytesMax = 256 * 1024;

/// One packet; `passed` travels by SCM_RIGHTS. Err(kPeerClosed) when the other end is gone.
Status send_message(int fd, const Message& message, int passed_fd = -1);
struct Received {
  Message message;
  Fd passed;
};
/// Blocks; decoding errors are kProtocol.
Result<Received> receive_message(int fd);

/// Descriptor number of the link in a freshly started worker (`sluice-worker --link-fd 3`).
inline constexpr int kWorkerLinkFd = 3;

}  // namespace sluice::server::link
