#include "shim/data_channel.h"

#include "common/format.h"
#include "common/log.h"
#include "protocol/frame_io.h"
#include "shim/encrypted_stream.h"
#include "shim/expect_frame.h"
#include "shim/session_report.h"
#include "shim/ucx_channel.h"
#include "transport/shm/memory.h"

#include <optional>

namespace sluice::shim {
namespace {

using transport::Address;

constexpr std::chrono::seconds kConnectTimeout{3};

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

std::unique_ptr<transport::Channel> channel_over(std::unique_ptr<transport::ByteStream> stream,
                                                 Resumable* resumable) {
  if (resumable == nullptr) return transport::make_stream_channel(std::move(stream));
  auto outer =
      std::make_unique<transport::ResumableStream>(std::move(stream), resumable->survives_reset);
  resumable->data = outer.get();
  return transport::make_stream_channel(std::move(outer));
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
  if (is_encrypted && choice == TransportChoice::kUcx)
    return fail(ErrorCode::kInvalidArgument,
                "SLUICE_TRANSPORT=ucx: RDMA encrypts nothing, and this session is encrypted; leave "
                "the choice automatic, or set SLUICE_TLS=off if the server allows it");
  if (is_encrypted) {
    wire::Attach attach;
    attach.is_resumable = resumable != nullptr ? 1 : 0;
    SLUICE_TRY(auto stream, open_encrypted_stream(address, welcome, attach));
    return channel_over(std::move(stream), resumable);
  }
  const bool tries_memory =
      choice == TransportChoice::kShm ||
      (choice == TransportChoice::kAutomatic && address.kind == Address::Kind::kUnix);
  const auto give_up = [&](const std::string& why) -> Status {
    note_not_used("shm", why);
    if (choice == TransportChoice::kShm)
      return fail(ErrorCode::kSystem, "shared memory (SLUICE_TRANSPORT=shm): " + why);
    SLUICE_LOG_WARN("session", "No shared memory with the server, its socket is used: {}", why);
    return {};
  };
  SLUICE_TRY(auto* const ucx, choose_ucx(address, welcome, choice));
  // Made before anything is said: a limit of this host must not cost the session.
  std::optional<transport::shm::Made> memory;
  if (tries_memory) {
    auto made = make_memory(welcome);
    if (made)
      memory.emplace(std::move(*made));
    else
      SLUICE_CHECK(give_up(made.error().message));
  }
  SLUICE_TRY(Fd socket, transport::connect_socket(address, kConnectTimeout));
  wire::Attach attach;
  attach.session_key = welcome.session_key;
  attach.offers_shared_memory = memory ? 1 : 0;
  attach.is_resumable = ucx == nullptr && resumable != nullptr ? 1 : 0;
  attach.wants_ucx = ucx != nullptr ? 1 : 0;
  SLUICE_CHECK(wire::write_frame(socket.get(), attach));
  SLUICE_TRY([[maybe_unused]] const auto attached, expect_frame<wire::Attached>(socket.get()));
  if (ucx != nullptr) return open_ucx_channel(*ucx, std::move(socket), choice);
  if (resumable != nullptr)
    return channel_over(transport::make_socket_stream(std::move(socket)), resumable);
  if (!memory) return transport::make_socket_channel(std::move(socket));
  SLUICE_TRY(const std::string refusal, offer(memory->fd, socket.get()));
  if (!refusal.empty()) {
    SLUICE_CHECK(give_up(refusal));
    return transport::make_socket_channel(std::move(socket));
  }
  return transport::shm::make_channel(std::move(memory->mapping), std::move(socket),
                                      transport::shm::Side::kClient);
}

}  // namespace sluice::shim
