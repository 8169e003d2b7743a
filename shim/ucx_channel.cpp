#include "shim/ucx_channel.h"

#include "common/log.h"
#include "protocol/frame_io.h"
#include "shim/expect_frame.h"
#include "shim/session_report.h"
#include "transport/ucx/devices.h"
#include "transport/ucx/library.h"

namespace sluice::shim {
namespace {

namespace ucx = transport::ucx;

/// rdmacm's own time limits are longer; a worker waits for 10 s.
constexpr std::chrono::seconds kConnectTime{8};

Status give_up(TransportChoice choice, const std::string& why) {
  note_not_used("ucx", why);
  if (choice == TransportChoice::kUcx)
    return fail(ErrorCode::kSystem, "UCX (SLUICE_TRANSPORT=ucx): " + why);
  SLUICE_LOG_WARN("session", "No RDMA with the server, its socket is used: {}", why);
  return {};
}

Result<std::unique_ptr<transport::Channel>> connect(ucx::Plugin& plugin, const Fd& socket) {
  SLUICE_TRY(const auto offer, expect_frame<wire::UcxOffer>(socket.get()));
  if (offer.is_accepted == 0)
    return fail(ErrorCode::kUnsupported, "the server refuses: " + offer.message);
  const ucx::StagingOffer staging{offer.staging_address, offer.staging_bytes, offer.staging_key};
  std::string no_staging;
  auto channel = plugin.connect(offer.host, offer.port, offer.token, socket,
                                transport::Clock::now() + kConnectTime,
                                staging.key.empty() ? nullptr : &staging, &no_staging);
  if (channel && !no_staging.empty())
    SLUICE_LOG_WARN("session", "No staging memory over UCX, bulk data travels in messages: {}",
                    no_staging);
  wire::UcxResult result;
  result.is_connected = channel ? 1 : 0;
  if (channel)
    result.uses_staging = (*channel)->staging().empty() ? 0 : 1;
  else
    result.message = channel.error().message;
  SLUICE_CHECK(wire::write_frame(socket.get(), result));
  return channel;
}

}  // namespace

Result<ucx::Plugin*> choose_ucx(const transport::Address& address, const wire::Welcome& welcome,
                                TransportChoice choice) {
  const bool is_chosen = choice == TransportChoice::kUcx;
  const bool may_try = choice == TransportChoice::kAutomatic &&
                       address.kind == transport::Address::Kind::kTcp && ucx::has_active_device();
  if (!is_chosen && !may_try) return nullptr;
  auto plugin = [&]() -> Result<ucx::Plugin*> {
    if ((welcome.feature_bits & wire::kFeatureUcx) == 0)
      return fail(ErrorCode::kUnsupported, "the server does not offer it");
    SLUICE_CHECK(ucx::check_host());
    return ucx::load();
  }();
  if (plugin) return plugin;
  SLUICE_CHECK(give_up(choice, plugin.error().message));
  return nullptr;
}

Result<std::unique_ptr<transport::Channel>> open_ucx_channel(ucx::Plugin& plugin, Fd socket,
                                                             TransportChoice choice) {
  auto channel = connect(plugin, socket);
  if (channel) return channel;
  SLUICE_CHECK(give_up(choice, channel.error().message));
  return transport::make_socket_channel(std::move(socket));
}

}  // namespace sluice::shim
