// The network between the two hosts as the host kernel of this one sees it, from the connection
// that carries the session.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::tool {

class Findings;

struct Path {
  std::string interface;        ///< that the connection leaves through; empty: not found
  std::uint32_t mtu_bytes = 0;  ///< of the path, as far as the host kernel knows
  std::uint32_t interface_mtu_bytes = 0;
  std::uint32_t interface_mbit_s = 0;  ///< 0: it does not tell
  std::uint32_t segment_bytes = 0;     ///< payload of a full packet (MSS)
  double rtt_us = 0, rtt_variation_us = 0, rtt_min_us = 0;
  std::uint32_t congestion_window = 0;  ///< packets
  std::string congestion_control;
  std::uint64_t segments_sent = 0, retransmitted = 0;
  bool is_loopback = false;
};

/// Nothing for a socket that is no TCP connection.
std::optional<Path> read_path(int socket);
nlohmann::json to_json(const Path& path);
Path path_from_json(const nlohmann::json& json);
void judge_path(const Path& path, Findings& findings);

}  // namespace sluice::tool
