// What a server tells a monitoring system about itself and its tenants, as plain values. The labels
// are bounded: tenants and devices, never sessions, programs or hosts.
#pragma once

#include "server/control/types.h"

#include <string>
#include <utility>
#include <vector>

namespace sluice::server::metrics {

struct Sample {
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};

/// By Prometheus' conventions: counters end in _total and only grow, some of them until the server
/// starts anew.
struct Family {
  std::string name, help;
  bool is_counter = false;
  std::vector<Sample> samples;
};

struct Snapshot {
  control::ServerInfo server;
  std::vector<control::TenantInfo> tenants;
  std::vector<control::MeteredUse> metered;
};

/// Pure. docs/metrics.md lists them.
std::vector<Family> families(const Snapshot& now);
/// What is left to say when the server does not answer: that nobody watches the quotas.
std::vector<Family> families_of_a_stuck_server();

}  // namespace sluice::server::metrics
