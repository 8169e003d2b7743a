// sluiced's configuration: a TOML file, every key of which is known and checked.
// docs/configuration.md describes it.
#pragma once

#include "common/result.h"
#include "server/config/token.h"
#include "transport/transport.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::config {

struct Tenant {
  std::string name;
  TokenHash token_hash{};
  std::uint64_t memory_limit_bytes = 0;  ///< on each device; 0 = the device's own size
  std::uint32_t max_sessions = 64;
};

struct Config {
  std::string driver;  ///< empty: the system's, else softgpu beside the executable
  std::vector<transport::Address> listen;
  std::string node;  ///< empty: the host's name
  std::string log_level = "info";
  std::string stats_file;  ///< one JSON line for every closed session; empty: none
  bool allow_plaintext_network = false;
  std::uint32_t max_sessions = 256;
  std::uint32_t prestart_workers = 1;
  std::vector<Tenant> tenants;
};

/// Err(kInvalidArgument) names the file, the line, the key, and what would be accepted.
Result<Config> load(const std::string& path);
Result<Config> parse(const std::string& text, const std::string& path);
/// What load() cannot know: at least one listen address, plain TCP on loopback only unless allowed.
Status check(const Config& config);

}  // namespace sluice::config
