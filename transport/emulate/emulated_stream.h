// A connection on an emulated link: what is sent and what is received arrives as late and as
// slowly as over that link, in order and without loss.
#pragma once

#include "transport/emulate/link.h"
#include "transport/stream/byte_stream.h"

#include <chrono>
#include <memory>

namespace sluice::transport::emulate {

/// A thread moves the bytes; it looks at the connection at least every 50 ms. Closing gives the
/// link the time that it needs to deliver what was sent, and a peer that takes nothing of it
/// `patience` more; the destructor waits for that.
Result<std::unique_ptr<ByteStream>> make_emulated_stream(
    std::unique_ptr<ByteStream> inner, std::shared_ptr<Link> link,
    std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace sluice::transport::emulate
