// The user's own settings: ~/.config/sluice/config.toml ($XDG_CONFIG_HOME). An option of the
// command line wins over an environment variable, and that over the file.
#pragma once

#include "common/result.h"
#include "transport/tls/client_choice.h"

#include <string>

namespace sluice::tool {

struct ClientConfig {
  std::string server, tenant, token_file, log;
  std::string memory, transport;  ///< for --local
  transport::tls::ClientChoice tls;
};

/// Where the file is looked for; empty if there is no home.
std::string client_config_path();
/// An absent file is an empty one. A relative file name in it is relative to its folder; "~/" is
/// the home. Errors name the line, the key, and the nearest known one.
Result<ClientConfig> load_client_config(const std::string& path);

}  // namespace sluice::tool
