// Pools and requests for tests.
#pragma once

#include "scheduler/pool/placement/placement.h"

#include <string>
#include <vector>

namespace sluice::test {

inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// With so many devices of 80 GiB, half of them on each socket.
inline pool::Node node_of(const std::string& name, int devices, const std::string& rack = "r1") {
  pool::Node node;
  node.name = name;
  node.rack = rack;
  for (int i = 0; i < devices; ++i) {
    pool::Device device;
    device.uuid = name + "-" + std::to_string(i);
    device.kind = "nvidia";
    device.model = "NVIDIA H100 80GB";
    device.memory_bytes = 80 * kGiB;
    device.capability = {9, 0};
    device.numa_node = i < devices / 2 ? 0 : 1;
    node.devices.push_back(device);
  }
  return node;
}

inline pool::Request request_of(std::int64_t gib, std::int64_t compute_permille = 100,
                                unsigned gpus = 1) {
  pool::Request request;
  request.tenant = "team";
  request.queue = "research";
  request.gpus = gpus;
  request.size = {.compute_permille = compute_permille, .memory_bytes = gib * kGiB};
  return request;
}

inline pool::Snapshot pool_of(std::vector<pool::Node> nodes) {
  return *pool::Snapshot::make(std::move(nodes));
}

inline pool::Decision place(const pool::Snapshot& snapshot, const pool::Request& request,
                            const pool::Reservations& reservations = {}, pool::JobId job = 1) {
  return pool::place(
      {.snapshot = snapshot, .reservations = reservations, .job = job, .ends_by = {}}, request, {});
}

inline pool::Lease lease_of(pool::LeaseId id, const pool::Request& request,
                            const pool::Decision& decision) {
  pool::Lease lease;
  lease.id = id;
  lease.tenant = request.tenant;
  lease.queue = request.queue;
  lease.cls = request.cls;
  lease.isolation = request.isolation;
  lease.labels = request.labels;
  lease.anti_affinity = request.anti_affinity;
  lease.parts = decision.parts;
  return lease;
}

}  // namespace sluice::test
