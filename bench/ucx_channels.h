// Channels over UCX for sluice-perf: messages, and bulk by put and get through staging memory, each
// beside UCX alone.
#pragma once

#include "transport/transport.h"
#include "ucx_raw.h"

#include <memory>
#include <span>

namespace sluice::bench {

/// Both ends, with staging memory, and the yardstick. Ends the program with a message where UCX
/// cannot be used.
struct UcxChannels {
  transport::LoopPair ends;
  std::unique_ptr<RawUcx> raw;
};
UcxChannels make_ucx_channels();

/// Seconds to copy `from` into the peer's staging memory, piece by piece as the client library
/// does, or what is there to `to`.
double staged_put_s(transport::Channel& client, std::span<const std::byte> from);
double staged_get_s(transport::Channel& client, std::span<std::byte> to);

}  // namespace sluice::bench
