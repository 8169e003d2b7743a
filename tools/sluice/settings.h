// What `sluice run` and `sluice doctor` were told: by options, the environment, and the user's
// file, in that order.
#pragma once

#include "common/result.h"
#include "tools/sluice/stats.h"
#include "transport/tls/client_choice.h"

#include <optional>
#include <string>
#include <vector>

namespace sluice::tool {

struct Settings {
  std::string server, tenant, token_file, memory, compute_limit, transport, emulate, log;
  transport::tls::ClientChoice tls;
  bool is_local = false, wants_stats = false, has_no_audit = false;
  std::vector<std::string> command;
  std::optional<StatsOptions> report;  ///< `sluice stats -- PROGRAM`
  std::string config_file;             ///< the user's file, if it was read
};

std::string environment(const char* name);
/// Fills in what the options left out. Err(kInvalidArgument): the user's file is wrong.
Result<Settings> complete(Settings options);
/// Puts server, tenant, token file, TLS and log level where the client libraries look for them.
void export_to_environment(const Settings& settings);

}  // namespace sluice::tool
