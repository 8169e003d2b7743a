#include "scheduler/pool/model/snapshot.h"

#include "common/format.h"

#include <algorithm>

namespace sluice::pool {
namespace {

void take_out(Use& use, const Lease& lease, const Resources& reserved) {
  use.reserved -= reserved;
  std::erase_if(use.holders, [&](const Holder& holder) { return holder.lease == lease.id; });
}

void put_in(Use& use, const Lease& lease, const Resources& reserved) {
  use.reserved += reserved;
  use.holders.push_back(
      {.lease = lease.id, .isolation = lease.isolation, .cls = lease.cls, .tenant = lease.tenant});
}

std::string lacks(const std::string& node, const std::string& uuid, const Resources& wanted,
                  const Resources& free) {
  for (const Resource resource : kResources)
    if (wanted[resource] > free[resource])
      return format("device {} of node {} has {} left, the lease needs {}", uuid, node,
                    amount_text(resource, free[resource]), amount_text(resource, wanted[resource]));
  return {};
}

}  // namespace

Result<Snapshot> Snapshot::make(std::vector<Node> nodes) {
  std::set<std::string_view> names;
  std::set<std::string_view> uuids;
  Snapshot out;
  for (const Node& node : nodes) {
    if (!names.insert(node.name).second)
      return fail(ErrorCode::kInvalidArgument,
                  format("two nodes are called \"{}\": give one another name", node.name));
    std::vector<DeviceUse>& uses = out.use_.emplace_back();
    for (const Device& device : node.devices) {
      if (!uuids.insert(device.uuid).second)
        return fail(ErrorCode::kInvalidArgument,
                    format("two devices have the UUID {}; the second is on node {}", device.uuid,
                           node.name));
      if (device.memory_bytes <= 0)
        return fail(ErrorCode::kInvalidArgument,
                    format("device {} of node {} has no memory", device.uuid, node.name));
      out.largest_memory_bytes_ = std::max(out.largest_memory_bytes_, device.memory_bytes);
      uses.push_back({.whole = {}, .instances = std::vector<Use>(device.instances.size())});
    }
  }
  out.versions_.resize(nodes.size());
  out.on_node_.resize(nodes.size());
  out.nodes_ = std::make_shared<const std::vector<Node>>(std::move(nodes));
  return out;
}

void Snapshot::set_node(std::size_t node, Node changed) {
  auto nodes = std::make_shared<std::vector<Node>>(*nodes_);
  (*nodes)[node] = std::move(changed);
  nodes_ = std::move(nodes);
  ++versions_[node];
}

Resources Snapshot::free(DevicePlace at) const {
  return device(at).size() - use(at).whole.reserved;
}

Resources Snapshot::free(DevicePlace at, std::uint32_t instance) const {
  return device(at).instances[instance].size - use(at).instances[instance].reserved;
}

Resources Snapshot::capacity() const {
  Resources out;
  for (const Node& node : *nodes_) {
    if (node.drained_until) continue;
    for (const Device& device : node.devices)
      if (device.is_healthy) out += device.size();
  }
  return out;
}

Status Snapshot::check_part(const Lease& lease, const Part& part) const {
  const auto [node, device] = part.place;
  if (node >= nodes_->size() || device >= (*nodes_)[node].devices.size())
    return fail(
        ErrorCode::kInvalidArgument,
        format("lease {} names device {} of node {}, which is not there", lease.id, device, node));
  const Device& on = (*nodes_)[node].devices[device];
  if (part.instance.has_value() != !on.instances.empty() ||
      (part.instance && *part.instance >= on.instances.size()))
    return fail(ErrorCode::kInvalidArgument,
                format("device {} of node {} is lent {}", on.uuid, (*nodes_)[node].name,
                       on.instances.empty() ? "without instances" : "by the instance"));
  if (part.reserved.compute_permille < 0 || part.reserved.memory_bytes < 0)
    return fail(ErrorCode::kInvalidArgument, format("lease {} holds less than nothing", lease.id));
  const Resources room = part.instance ? free(part.place, *part.instance) : free(part.place);
  if (!part.reserved.fits_in(room))
    return fail(ErrorCode::kExhausted, lacks((*nodes_)[node].name, on.uuid, part.reserved, room));
  const DeviceUse& use = use_[node][device];
  for (const Holder& holder : (part.instance ? use.instances[*part.instance] : use.whole).holders)
    if (!may_share(holder.isolation, lease.isolation, holder.tenant == lease.tenant))
      return fail(ErrorCode::kExhausted,
                  format("device {} of node {} cannot be shared by the leases {} and {}", on.uuid,
                         (*nodes_)[node].name, holder.lease, lease.id));
  return {};
}

Status Snapshot::grant(Lease lease) {
  if (leases_.contains(lease.id))
    return fail(ErrorCode::kInvalidArgument, format("there is a lease {} already", lease.id));
  std::set<DevicePlace> places;
  for (const Part& part : lease.parts) {
    // Each part is checked against what is free now, which two on one device would both pass.
    if (!places.insert(part.place).second)
      return fail(ErrorCode::kInvalidArgument,
                  format("lease {} names a device twice: its GPUs are different ones", lease.id));
    SLUICE_CHECK(check_part(lease, part));
  }
  for (const Part& part : lease.parts) {
    DeviceUse& use = use_[part.place.node][part.place.device];
    put_in(use.whole, lease, part.reserved);
    if (part.instance) put_in(use.instances[*part.instance], lease, part.reserved);
    if (on_node_[part.place.node].insert(lease.id).second) ++versions_[part.place.node];
  }
  leases_.emplace(lease.id, std::move(lease));
  return {};
}

bool Snapshot::release(LeaseId id) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return false;
  for (const Part& part : found->second.parts) {
    DeviceUse& use = use_[part.place.node][part.place.device];
    take_out(use.whole, found->second, part.reserved);
    if (part.instance) take_out(use.instances[*part.instance], found->second, part.reserved);
    if (on_node_[part.place.node].erase(id) > 0) ++versions_[part.place.node];
  }
  leases_.erase(found);
  return true;
}

bool Snapshot::set_ending(LeaseId id) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return false;
  found->second.is_ending = true;
  ++found->second.version;
  return true;
}

}  // namespace sluice::pool
