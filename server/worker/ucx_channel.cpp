#include "server/worker/ucx_channel.h"

#include "common/log.h"
#include "protocol/frame_io.h"
#include "transport/ucx/devices.h"
#include "transport/ucx/library.h"

namespace sluice::server {
namespace {

namespace ucx = transport::ucx;

constexpr std::chrono::seconds kConnectTime{10}, kFrameTime{5};

struct Listening {
  std::unique_ptr<ucx::Listener> listener;
  std::string host;
  ucx::Token token{};
  ucx::StagingOffer staging;  ///< without a key: none
};

/// Where this client can reach us: by the address that it has reached us at, if that is one of an
/// RDMA device's, else by the first of those.
Result<std::string> host_for(ucx::Lane lane, const Fd& socket) {
  const std::string reached = ucx::local_address(socket.get());
  if (lane == ucx::Lane::kTcp) return reached.empty() ? "127.0.0.1" : reached;
  const auto all = ucx::addresses(reached);
  if (all.empty()) return fail(ErrorCode::kNotFound, "the RDMA device has no IP address");
  return all.front();
}

Result<Listening> listen_for(const Fd& socket) {
  SLUICE_CHECK(ucx::check_host());
  SLUICE_TRY(ucx::Plugin * plugin, ucx::load());
  Listening out;
  SLUICE_TRY(out.host, host_for(plugin->lane(), socket));
  SLUICE_TRY(out.token, ucx::random_token());
  SLUICE_TRY(out.listener, plugin->listen(out.host, out.token));
  auto staging = out.listener->offer_staging();
  if (staging)
    out.staging = std::move(*staging);
  else if (staging.error().code == ErrorCode::kUnsupported)
    SLUICE_LOG_DEBUG("session", "no staging memory over UCX: {}", staging.error().message);
  else
    SLUICE_LOG_WARN("session", "no staging memory over UCX, bulk data travels in messages: {}",
                    staging.error().message);
  return out;
}

}  // namespace

Result<std::unique_ptr<transport::Channel>> open_ucx_channel(Fd socket) {
  auto listening = listen_for(socket);
  wire::UcxOffer offer;
  offer.is_accepted = listening ? 1 : 0;
  if (listening) {
    offer.host = listening->host;
    offer.port = listening->listener->port();
    offer.token = listening->token;
    offer.staging_address = listening->staging.address;
    offer.staging_bytes = listening->staging.bytes;
    offer.staging_key = listening->staging.key;
  } else {
    offer.message = listening.error().message;
  }
  const auto now = transport::Clock::now();
  SLUICE_CHECK(wire::write_frame(socket.get(), offer, now + kFrameTime));
  std::string refusal = offer.message;
  if (listening) {
    SLUICE_CHECK(listening->listener->serve_until_readable(socket.get(), now + kConnectTime));
    SLUICE_TRY(const wire::Frame frame,
               wire::read_frame(socket.get(), transport::Clock::now() + kFrameTime));
    const auto* result = std::get_if<wire::UcxResult>(&frame);
    if (result == nullptr)
      return fail(ErrorCode::kProtocol, "expected how the connection over UCX went");
    if (result->is_connected != 0)
      return listening->listener->take(socket, result->uses_staging != 0);
    refusal = result->message;
  }
  SLUICE_LOG_WARN("session", "no UCX, the socket carries the session: {}", refusal);
  return transport::make_socket_channel(std::move(socket));
}

}  // namespace sluice::server
