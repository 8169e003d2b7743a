// A GPU server as it has registered, and what an administrator has said about it.
#pragma once

#include "scheduler/device/share.h"
#include "scheduler/pool/model/resources.h"

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice::pool {

// The pool's clock is the scheduler's: monotonic, brought by the caller.
using scheduler::Class;
using scheduler::Duration;
using scheduler::Time;

using Labels = std::map<std::string, std::string, std::less<>>;

struct Capability {
  int major = 0, minor = 0;
  auto operator<=>(const Capability&) const = default;
};

/// A MIG instance: a part of a device in hardware. A device that is cut into instances is lent by
/// the instance only.
struct Instance {
  std::string uuid;
  std::string profile;  ///< "1g.10gb"
  Resources size;       ///< its part of the device's compute, and its own memory
};

struct Device {
  std::string uuid;
  std::string kind;   ///< whose driver: "nvidia", "softgpu"
  std::string model;  ///< as the driver names it
  std::int64_t memory_bytes = 0;
  Capability capability;
  int numa_node = 0;
  std::string rail;  ///< the network it is nearest to; empty: the node's only one
  bool is_healthy = true;
  std::vector<Instance> instances;

  [[nodiscard]] Resources size() const {
    return {.compute_permille = kDevicePermille, .memory_bytes = memory_bytes};
  }
};

/// Keeps requests off a node that do not tolerate it.
struct Taint {
  std::string key, value;
  bool operator==(const Taint&) const = default;
};

struct Node {
  std::string name;
  std::string rack;
  Labels labels;
  std::vector<Taint> taints;
  std::vector<Device> devices;
  bool is_cordoned = false;           ///< nothing new; what runs may stay
  std::optional<Time> drained_until;  ///< nothing new; what runs must have ended by then
};

}  // namespace sluice::pool
