#include "server/worker/data_channel.h"

#include "common/format.h"
#include "common/log.h"
#include "protocol/frame_io.h"
#include "server/worker/ucx_channel.h"
#include "transport/shm/memory.h"
#include "transport/stream/byte_stream.h"
#include "transport/uring/uring_stream.h"

namespace sluice::server {
namespace {

constexpr std::chrono::seconds kOfferTimeout{5};

Result<transport::shm::Mapping> take_memory(const wire::SharedMemory& offer, const Fd& memory) {
  if (offer.layout_version != transport::shm::kLayoutVersion)
    return fail(ErrorCode::kProtocol,
                format("the client's shared memory has layout {}, the server's {}",
                       offer.layout_version, transport::shm::kLayoutVersion));
  if (!memory.valid())
    return fail(ErrorCode::kProtocol, "the client's shared memory did not come along");
  return transport::shm::adopt_memory(memory.get());
}

std::unique_ptr<transport::Channel> make_channel(Fd socket, const DataOptions& options,
                                                 transport::Lanes lanes) {
  auto stream = options.uses_io_uring
                    ? transport::uring::make_uring_or_socket_stream(
                          std::move(socket), transport::uring::Receivers::kOneThread)
                    : transport::make_socket_stream(std::move(socket));
  return transport::make_stream_channel(std::move(stream), std::move(lanes));
}

}  // namespace

Result<std::unique_ptr<transport::Channel>> open_data_channel(Fd socket, const DataOptions& options,
                                                              transport::Lanes lanes) {
  if (options.wants_ucx) return open_ucx_channel(std::move(socket));
  if (!options.offers_shared_memory)
    return make_channel(std::move(socket), options, std::move(lanes));
  const auto deadline = transport::Clock::now() + kOfferTimeout;
  Fd memory;
  SLUICE_TRY(const wire::Frame frame, wire::read_frame_with(&memory, socket.get(), deadline));
  const auto* offer = std::get_if<wire::SharedMemory>(&frame);
  if (offer == nullptr)
    return fail(ErrorCode::kProtocol, "expected the shared memory that was announced");
  auto mapping = take_memory(*offer, memory);
  if (!mapping)
    SLUICE_LOG_WARN("session", "shared memory is refused, the socket carries the session: {}",
                    mapping.error().message);
  SLUICE_CHECK(
      wire::write_frame(socket.get(),
                        wire::SharedMemoryAnswer{static_cast<std::uint8_t>(mapping ? 1 : 0),
                                                 mapping ? std::string() : mapping.error().message},
                        deadline));
  if (!mapping) return make_channel(std::move(socket), options, std::move(lanes));
  return transport::shm::make_channel(std::move(*mapping), std::move(socket),
                                      transport::shm::Side::kServer);
}

}  // namespace sluice::server
