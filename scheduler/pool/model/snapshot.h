// The pool at one moment: nodes, and the leases on them. What policies look at; who asks them keeps
// the original.
#pragma once

#include "common/result.h"
#include "scheduler/pool/model/lease.h"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::pool {

/// Of a lease, what its neighbours on a device have to know.
struct Holder {
  LeaseId lease;
  Isolation isolation;
  Class cls;
  std::string tenant;
};

/// What is under way on one device, or on one of its instances.
struct Use {
  Resources reserved;
  std::vector<Holder> holders;
  [[nodiscard]] bool is_empty() const { return holders.empty(); }
};

struct DeviceUse {
  Use whole;                   ///< of all, those in instances included
  std::vector<Use> instances;  ///< by place
};

/// A value; externally locked.
class Snapshot {
 public:
  Snapshot() = default;
  /// Err(kInvalidArgument) names a node or a UUID that occurs twice, and a device without memory.
  static Result<Snapshot> make(std::vector<Node> nodes);

  [[nodiscard]] std::span<const Node> nodes() const { return *nodes_; }
  [[nodiscard]] const Node& node(std::size_t node) const { return (*nodes_)[node]; }
  /// Changes cordon, drain, labels, taints or health; it has the same devices as before.
  void set_node(std::size_t node, Node changed);
  [[nodiscard]] const Device& device(DevicePlace at) const {
    return (*nodes_)[at.node].devices[at.device];
  }
  [[nodiscard]] const std::map<LeaseId, Lease>& leases() const { return leases_; }
  [[nodiscard]] const DeviceUse& use(DevicePlace at) const { return use_[at.node][at.device]; }
  /// Leases that have a part on the node.
  [[nodiscard]] const std::set<LeaseId>& leases_on(std::size_t node) const {
    return on_node_[node];
  }
  /// Nothing that is lent of it.
  [[nodiscard]] bool is_unused(DevicePlace at) const { return use(at).whole.is_empty(); }
  /// What is left of the device, or of the instance.
  [[nodiscard]] Resources free(DevicePlace at) const;
  [[nodiscard]] Resources free(DevicePlace at, std::uint32_t instance) const;

  /// Grows whenever something about the node changes: a decision holds while it is the same.
  [[nodiscard]] std::uint64_t version(std::size_t node) const { return versions_[node]; }
  /// Of the healthy devices of nodes that are not drained.
  [[nodiscard]] Resources capacity() const;
  [[nodiscard]] std::int64_t largest_memory_bytes() const { return largest_memory_bytes_; }

  /// All of the lease, or nothing. Err(kExhausted) says which device lacks what: a lease never
  /// over-commits one nor breaks a neighbour's isolation, whatever the policies decided.
  /// Err(kInvalidArgument): the id is taken, or a part names no device.
  Status grant(Lease lease);
  /// False: there is no such lease.
  bool release(LeaseId id);
  /// It was told to go; false: there is no such lease.
  bool set_ending(LeaseId id);

 private:
  [[nodiscard]] Status check_part(const Lease& lease, const Part& part) const;

  /// Shared by copies, since policies try things out on copies; whoever changes it copies it.
  std::shared_ptr<const std::vector<Node>> nodes_ = std::make_shared<const std::vector<Node>>();
  std::vector<std::uint64_t> versions_;
  std::vector<std::vector<DeviceUse>> use_;
  std::vector<std::set<LeaseId>> on_node_;
  std::map<LeaseId, Lease> leases_;
  std::int64_t largest_memory_bytes_ = 0;
};

}  // namespace sluice::pool
