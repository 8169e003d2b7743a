// The client's end.
#include "transport/ucx/plugin/ends.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

namespace sluice::transport::ucx {

Status keep_life_line(Wire& wire, const Fd& socket) {
  Fd duplicate(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!duplicate.valid()) return fail(system_error("duplicating a descriptor", errno));
  wire.keep_life_line(std::move(duplicate));
  return {};
}

Result<ucp_ep_h> make_endpoint(Wire& wire, ucp_ep_params_t params) {
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.arg = &wire;
  params.err_handler.cb = [](void* arg, ucp_ep_h endpoint, ucs_status_t status) {
    static_cast<Wire*>(arg)->on_endpoint_error(endpoint, status);
  };
  ucp_ep_h endpoint = nullptr;
  const auto status = ucp_ep_create(wire.worker(), &params, &endpoint);
  if (status != UCS_OK) return fail(ucx_error("making an endpoint", status));
  return endpoint;
}

namespace {

/// Longer than a busy host takes for a few bytes there and back.
constexpr std::chrono::seconds kTrialTime{5};

Status open_staging(Wire& wire, Wire::Lock& lock, ucp_context_h context, const StagingOffer& offer,
                    Deadline deadline) {
  SLUICE_TRY(auto memory, RegisteredMemory::make(context, kStagingBytes));
  return wire.open_staging(lock, std::move(memory), offer,
                           std::min(deadline, Clock::now() + kTrialTime));
}

}  // namespace

Result<std::unique_ptr<Channel>> connect(ucp_context_h context, Lane lane, const Peer& peer,
                                         const Fd& life_line, Deadline deadline,
                                         const StagingOffer* offer, std::string* no_staging) {
  SLUICE_TRY(const SocketAddress address, socket_address(peer.host, peer.port));
  SLUICE_TRY(auto wire, Wire::make(context, lane, peer.token));
  SLUICE_CHECK(keep_life_line(*wire, life_line));
  {
    Wire::Lock lock = wire->lock();
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr = address.view();
    SLUICE_TRY(ucp_ep_h endpoint, make_endpoint(*wire, params));
    wire->adopt(endpoint);
    SLUICE_CHECK(wire->post(Kind::kHello));
    const bool is_over = wire->wait_for(lock, wire->send_bell(), deadline,
                                        [&] { return wire->is_welcome() || wire->is_send_over(); });
    if (!is_over) return fail(ErrorCode::kTimeout, "UCX: no answer from " + peer.host);
    if (!wire->is_welcome()) return fail(wire->why_over("connecting to " + peer.host));
    if (offer != nullptr) {
      const Status opened = open_staging(*wire, lock, context, *offer, deadline);
      if (!opened && no_staging != nullptr) *no_staging = opened.error().message;
    }
  }
  return make_channel(std::move(wire));
}

}  // namespace sluice::transport::ucx
