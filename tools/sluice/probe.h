// Whether a server would let this user in, in words for people: what the program itself would only
// see as an error of cuInit.
#pragma once

#include "common/result.h"
#include "tools/sluice/settings.h"
#include "transport/stream/byte_stream.h"
#include "transport/transport.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace sluice::tool {

/// Where to go and what to show there.
struct Target {
  transport::Address address;
  std::string tenant, token;
  transport::tls::ClientChoice tls;
};
/// Err: what is wrong on the user's side, an address that is none or a token file that cannot be
/// read.
Result<Target> target_of(const Settings& settings);
/// A control connection, encrypted if it must be; nothing has been said on it.
Result<std::unique_ptr<transport::ByteStream>> open_control(const Target& target);
/// What a server said that would let the user in.
struct Reached {
  std::string node, release;  ///< its name of itself; release empty: older than 0.1.0
  std::string address;        ///< numeric, or unix:PATH
  std::uint64_t feature_bits = 0;
  transport::Reach reach = transport::Reach::kUnix;
  bool is_encrypted = false;
  double connect_us = 0;  ///< the connection alone: about one round trip of the network
  struct Clock {
    double ahead_us = 0;        ///< its wall clock before ours
    double uncertainty_us = 0;  ///< half the time that the answer took
  };
  std::optional<Clock> clock;  ///< nothing: the server does not tell
};
/// Makes no session. Err: what is wrong with the server or what it refuses, and the fix.
Result<Reached> probe(const Target& target);

/// Why there can be no such link as was asked for (--emulate); empty: there can, or none was.
std::string wrong_link(const Settings& settings);
/// Why the transport that was asked for does not lead to the server; empty: it does.
std::string wrong_transport(const Settings& settings);

}  // namespace sluice::tool
