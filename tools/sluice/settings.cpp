#include "tools/sluice/settings.h"

#include "tools/sluice/client_config.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace sluice::tool {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<Settings> complete(Settings options) {
  const std::string path = client_config_path();
  SLUICE_TRY(const ClientConfig file, load_client_config(path));
  if (!path.empty() && ::access(path.c_str(), F_OK) == 0) options.config_file = path;
  const auto first = [](std::string* option, const std::string& variable, const std::string& own) {
    if (option->empty()) *option = !variable.empty() ? variable : own;
  };
  if (!options.is_local) {
    first(&options.server, environment("SLUICE_SERVER"), file.server);
    first(&options.tenant, environment("SLUICE_TENANT"), file.tenant);
    // A token in the environment was given on purpose; the file's must not take its place.
    first(&options.token_file, environment("SLUICE_TOKEN_FILE"),
          environment("SLUICE_TOKEN").empty() ? file.token_file : "");
  } else {
    first(&options.memory, "", file.memory);
  }
  first(&options.transport, environment("SLUICE_TRANSPORT"),
        options.is_local ? file.transport : "");
  first(&options.log, environment("SLUICE_LOG"), file.log);
  if (!options.token_file.empty())
    options.token_file = std::filesystem::absolute(options.token_file).string();
  return options;
}

void export_to_environment(const Settings& settings) {
  const auto put = [](const char* variable, const std::string& value) {
    if (!value.empty()) ::setenv(variable, value.c_str(), 1);
  };
  put("SLUICE_SERVER", settings.server);
  put("SLUICE_TENANT", settings.tenant);
  put("SLUICE_TOKEN_FILE", settings.token_file);
  put("SLUICE_TRANSPORT", settings.transport);
  put("SLUICE_LOG", settings.log);
}

}  // namespace sluice::tool
