// What a program asks of the pool.
#pragma once

#include "common/result.h"
#include "scheduler/pool/model/node.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::pool {

using JobId = std::uint64_t;

/// What else may run on the device.
enum class Isolation : std::uint8_t {
  kShared,     ///< anybody
  kTenant,     ///< the same tenant only
  kInstance,   ///< nobody in the MIG instance, anybody in the device's others
  kExclusive,  ///< nobody
};

/// Two leases may be on the same device, or in the same instance of one.
constexpr bool may_share(Isolation a, Isolation b, bool is_same_tenant) {
  const auto alone = [](Isolation i) {
    return i == Isolation::kExclusive || i == Isolation::kInstance;
  };
  if (alone(a) || alone(b)) return false;
  return is_same_tenant || (a == Isolation::kShared && b == Isolation::kShared);
}

/// Without a value: any value of that key.
struct Toleration {
  std::string key;
  std::optional<std::string> value;
};

/// Where the client runs, if the pool knows; what is empty is not compared.
struct Origin {
  std::string node, rail, rack;
};

struct Request {
  std::string tenant, queue;
  unsigned gpus = 1;                        ///< different devices
  Resources size;                           ///< of each
  std::optional<std::int64_t> memory_part;  ///< permille of whichever device is chosen, instead of
                                            ///< size.memory_bytes
  Class cls = Class::kStandard;
  Isolation isolation = Isolation::kShared;
  bool may_span = false;  ///< devices of several nodes

  std::string kind;   ///< empty: any
  std::string model;  ///< a part of the model's name, in any case; empty: any
  Capability capability;
  Labels node_labels;  ///< the node has them all
  Labels labels;       ///< how others' affinities see this one
  Labels affinity;     ///< on nodes with a lease that has these labels
  Labels anti_affinity;
  std::vector<Toleration> tolerations;
  Origin origin;

  /// Queues are charged what is asked for, not where it lands: a placement cannot change what a
  /// queue may have. A whole device is a whole device's compute; a memory part stays symbolic until
  /// a device is chosen, and counts as that part of `largest_memory_bytes`.
  [[nodiscard]] Resources charge(std::int64_t largest_memory_bytes) const;
  /// What it needs of a device with that much memory.
  [[nodiscard]] Resources need(std::int64_t device_memory_bytes) const;
};

inline constexpr unsigned kGpusMax = 4096;

/// Err(kInvalidArgument) names the value and what would be accepted.
Status check(const Request& request);

}  // namespace sluice::pool
