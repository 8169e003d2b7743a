// Both ends of a socket channel with bulk lanes, in one process.
#pragma once

#include "transport/stream/byte_stream.h"

#include <sys/socket.h>

#include <cstdlib>

namespace sluice {

/// `wrap` may put something between the client's channel or lanes and their sockets.
template <class Wrap>
transport::LoopPair make_lane_pair(std::size_t count, const Wrap& wrap) {
  transport::Lanes client, server;
  for (std::size_t i = 0; i <= count; ++i) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    client.push_back(wrap(transport::make_socket_stream(Fd(ends[0]))));
    server.push_back(transport::make_socket_stream(Fd(ends[1])));
  }
  const auto channel = [](transport::Lanes streams) {
    auto first = std::move(streams.front());
    streams.erase(streams.begin());
    return transport::make_stream_channel(std::move(first), std::move(streams));
  };
  return {channel(std::move(client)), channel(std::move(server))};
}
inline transport::LoopPair make_lane_pair(std::size_t count = 2) {
  return make_lane_pair(count, [](std::unique_ptr<transport::ByteStream> s) { return s; });
}

}  // namespace sluice
