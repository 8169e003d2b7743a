// The client's end of the data connection, over the transport that fits: memory shared with the
// worker if the server is on this host, RDMA if both hosts have it, else the socket, and lanes
// for bulk data beside it.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "protocol/bootstrap.h"
#include "shim/resumption.h"
#include "transport/transport.h"

#include <memory>
#include <string>

namespace sluice::shim {

enum class TransportChoice { kAutomatic, kShm, kUnix, kTcp, kUcx };

/// SLUICE_TRANSPORT; empty is automatic. Err(kInvalidArgument): no such transport, or none that
/// leads to this address.
Result<TransportChoice> parse_transport(const std::string& text, const transport::Address& address);

/// Attaches a second connection to the session. What was chosen and does not work is an error; an
/// automatic choice falls back to the socket, with one line in the log. Encrypted: like the
/// connection that the Welcome came over. `resumable`: its connections can be replaced, and their
/// streams are noted there; null: they cannot.
Result<std::unique_ptr<transport::Channel>> open_data_channel(const transport::Address& address,
                                                              const wire::Welcome& welcome,
                                                              TransportChoice choice,
                                                              bool is_encrypted = false,
                                                              Resumable* resumable = nullptr);

}  // namespace sluice::shim
