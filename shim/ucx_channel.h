// The client's half of agreeing on UCX: the worker listens, says where and with which token, and we
// connect; the socket on which that was said stays open and tells each end whether the other lives.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "protocol/bootstrap.h"
#include "shim/data_channel.h"
#include "transport/ucx/plugin.h"

#include <memory>

namespace sluice::shim {

/// UCX, loaded, if it is chosen, or if nothing is and this host has RDMA; else null. What was
/// chosen and is impossible is an error; otherwise one line in the log says why not.
Result<transport::ucx::Plugin*> choose_ucx(const transport::Address& address,
                                           const wire::Welcome& welcome, TransportChoice choice);

/// On an attached socket, whose Attach asked for it. A worker that refuses or cannot be reached is
/// an error if UCX was chosen; else the socket is used, and one line in the log says why.
Result<std::unique_ptr<transport::Channel>> open_ucx_channel(transport::ucx::Plugin& ucx, Fd socket,
                                                             TransportChoice choice);

}  // namespace sluice::shim
