// Making the two ends of a channel.
#pragma once

#include "transport/ucx/plugin.h"
#include "transport/ucx/plugin/wire.h"

namespace sluice::transport::ucx {

/// Gives the endpoint up without a word.
void close_now(ucp_worker_h worker, ucp_ep_h endpoint);

/// A duplicate of the socket for the wire.
Status keep_life_line(Wire& wire, const Fd& socket);

/// Where a client connects to.
struct Peer {
  const std::string& host;
  std::uint16_t port;
  const Token& token;
};

std::unique_ptr<Channel> make_channel(std::unique_ptr<Wire> wire);
Result<std::unique_ptr<Listener>> make_listener(ucp_context_h context, const Setup& setup,
                                                const std::string& host, const Token& token);
/// With an offer, `context` must have UCP_FEATURE_RMA.
Result<std::unique_ptr<Channel>> connect(ucp_context_h context, Lane lane, const Peer& peer,
                                         const Fd& life_line, Deadline deadline,
                                         const StagingOffer* offer, std::string* no_staging);

/// ucp_ep_create() with what all endpoints have; `wire` learns of its errors.
Result<ucp_ep_h> make_endpoint(Wire& wire, ucp_ep_params_t params);

}  // namespace sluice::transport::ucx
