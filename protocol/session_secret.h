// What the two ends of an encrypted data connection call it when they prove the session's key to
// each other. The name is part of the proof: nobody on the way can make one connection of a session
// pass for another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice::wire {

/// Lane 0 is the connection for records; `lane_count` is the session's, of its lanes for bulk data.
inline std::string secret_identity(std::uint64_t session_id, std::size_t lane,
                                   std::size_t lane_count) {
  std::string name = std::to_string(session_id);
  if (lane_count > 0) name += "/" + std::to_string(lane) + "/" + std::to_string(lane_count);
  return name;
}

}  // namespace sluice::wire
