#include "shim/data_channel.h"

#include "common/format.h"
#include "common/log.h"
#include "protocol/frame_io.h"
#include "shim/data_streams.h"
#include "shim/expect_frame.h"
#include "shim/session_report.h"
#include "shim/ucx_channel.h"
#include "transport/shm/memory.h"
#include "transport/stream/byte_stream.h"

#include <optional>

namespace sluice::shim {
namespace {

using transport::Address;

Result<transport::shm::Made> make_memory(const wire::Welcome& welcome) {
  if ((welcome.feature_bits & wire::kFeatureSharedMemory) == 0)
    return fail(ErrorCode::kNotFound, "the server is too old for it; update it");
  return transport::shm::make_memory();
}

/// Empty: the worker has taken the memory. Else why not.
Result<std::string> offer(const Fd& memory, int socket) {
  SLUICE_CHECK(wire::write_frame_with(memory.get(), socket,
                                      wire::SharedMemory{transport::shm::kLayoutVersion}));
  SLUICE_TRY(const auto answer, expect_frame<wire::SharedMemoryAnswer>(socket));
  if (answer.is_accepted != 0) return std::string();
  return answer.message.empty() ? "the server refuses it" : answer.message;
}

/// What cannot be, whatever the hosts have.
Status check_choice(TransportChoice choice, bool is_encrypted, const wire::Welcome& welcome,
                    bool is_emulated) {
  if (is_encrypted && choice == TransportChoice::kUcx)
    return fail(ErrorCode::kInvalidArgument,
                "SLUICE_TRANSPORT=ucx: RDMA encrypts nothing, and this session is encrypted; leave "
                "the choice automatic, or set SLUICE_TLS=off if the server allows it");
  if (is_encrypted && (welcome.feature_bits & wire::kFeatureTls) == 0)
    return fail(ErrorCode::kVersion, "the server cannot encrypt data connections; update it");
  const bool is_socket = choice != TransportChoice::kShm && choice != TransportChoice::kUcx;
  if (is_emulated && !is_socket)
    return fail(ErrorCode::kInvalidArgument,
                "SLUICE_EMULATE: shared memory and UCX are no links that can be emulated; use "
                "SLUICE_TRANSPORT=unix or tcp");
  return {};
}

}  // namespace

Result<TransportChoice> parse_transport(const std::string& text, const Address& address) {
  const bool is_unix = address.kind == Address::Kind::kUnix;
  if (text.empty()) return TransportChoice::kAutomatic;
  if (text == "shm" && is_unix) return TransportChoice::kShm;
  if (text == "unix" && is_unix) return TransportChoice::kUnix;
  if (text == "tcp" && !is_unix) return TransportChoice::kTcp;
  if (text == "ucx" && !is_unix) return TransportChoice::kUcx;
  if (text != "shm" && text != "unix" && text != "tcp" && text != "ucx")
    return fail(ErrorCode::kInvalidArgument,
                format("SLUICE_TRANSPORT: \"{}\" is no transport (shm, unix, tcp, ucx)", text));
  return fail(ErrorCode::kInvalidArgument,
              format("SLUICE_TRANSPORT={}: not possible with this server address; {}", text,
                     is_unix ? "tcp and ucx need HOST[:PORT]"
                             : "shm and unix need a server on this host, unix:PATH"));
}

Result<std::unique_ptr<transport::Channel>> open_data_channel(const Address& address,
                                                              const wire::Welcome& welcome,
                                                              TransportChoice choice,
                                                              bool is_encrypted,
                                                              Resumable* resumable) {
  SLUICE_TRY(const auto link, emulated_link());
  SLUICE_CHECK(check_choice(choice, is_encrypted, welcome, link != nullptr));
  transport::ucx::Plugin* ucx = nullptr;
  if (!is_encrypted && link == nullptr) {
    SLUICE_TRY(ucx, choose_ucx(address, welcome, choice));
  }
  const bool tries_memory =
      choice == TransportChoice::kShm || (choice == TransportChoice::kAutomatic &&
                                          address.kind == Address::Kind::kUnix && link == nullptr);
  const auto give_up = [&](const std::string& why) -> Status {
    note_not_used("shm", why);
    if (choice == TransportChoice::kShm)
      return fail(ErrorCode::kSystem, "shared memory (SLUICE_TRANSPORT=shm): " + why);
    SLUICE_LOG_WARN("session", "No shared memory with the server, its socket is used: {}", why);
    return {};
  };
  // Made before anything is said: a limit of this host must not cost the session.
  std::optional<transport::shm::Made> memory;
  if (tries_memory) {
    auto made = make_memory(welcome);
    if (made)
      memory.emplace(std::move(*made));
    else
      SLUICE_CHECK(give_up(made.error().message));
  }
  const DataStreams streams(
      {address, welcome, is_encrypted, ucx == nullptr ? resumable : nullptr, link});
  SLUICE_TRY(const std::uint8_t lane_count, streams.lanes_wanted());
  wire::Attach attach;
  attach.offers_shared_memory = memory ? 1 : 0;
  attach.wants_ucx = ucx != nullptr ? 1 : 0;
  attach.lane_count = memory || ucx != nullptr ? 0 : lane_count;
  SLUICE_TRY(Fd socket, streams.attach(attach));
  if (ucx != nullptr) return open_ucx_channel(*ucx, std::move(socket), choice);
  if (memory) {
    SLUICE_TRY(const std::string refusal, offer(memory->fd, socket.get()));
    if (refusal.empty())
      return transport::shm::make_channel(std::move(memory->mapping), std::move(socket),
                                          transport::shm::Side::kClient);
    SLUICE_CHECK(give_up(refusal));
  }
  SLUICE_TRY(auto records, streams.make(std::move(socket), attach));
  SLUICE_TRY(auto lanes, streams.open_lanes(attach));
  if (!lanes.empty())
    SLUICE_LOG_INFO("session", "Lanes for bulk data beside the records: {}", lanes.size());
  return transport::make_stream_channel(std::move(records), std::move(lanes));
}

}  // namespace sluice::shim
