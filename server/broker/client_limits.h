// What a client's own environment wishes: less than its tenant's slice. Such a wish only lowers;
// names that other systems use for it are understood, too. docs/configuration.md lists them.
#pragma once

#include "common/result.h"

#include <cstdint>
#include <map>
#include <string_view>

namespace sluice::server {

struct ClientLimits {
  std::uint64_t memory_bytes = 0;  ///< of each device; 0: no wish
  /// Of single devices, by the server's number, besides that.
  std::map<std::uint32_t, std::uint64_t> device_bytes;
  double compute = 1;  ///< fraction of each device's time

  /// The smaller one of `bytes` and what is wished there.
  [[nodiscard]] std::uint64_t lowered(std::uint64_t bytes, std::uint32_t device) const;
  bool operator==(const ClientLimits&) const = default;
};

/// Lines NAME=VALUE, as wire::Hello has them. Unknown names are a newer client's and are left out.
/// Err(kInvalidArgument) names the variable and what is accepted: a wish for less that cannot be
/// read must not become a wish for everything.
Result<ClientLimits> parse_client_limits(std::string_view lines);

}  // namespace sluice::server
