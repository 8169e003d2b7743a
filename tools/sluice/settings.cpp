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
    const transport::tls::ClientChoice given = transport::tls::choice_from_environment();
    first(&options.tls.mode, given.mode, file.tls.mode);
    first(&options.tls.ca_file, given.ca_file, file.tls.ca_file);
    first(&options.tls.certificate_file, given.certificate_file, file.tls.certificate_file);
    first(&options.tls.key_file, given.key_file, file.tls.key_file);
    SLUICE_CHECK(transport::tls::check(options.tls));
  } else {
    // Whatever the environment says of other servers.
    options.tls = {.mode = options.tls.mode == "on" ? "on" : "off"};
    first(&options.memory, "", file.memory);
  }
  first(&options.transport, environment("SLUICE_TRANSPORT"),
        options.is_local ? file.transport : "");
  first(&options.emulate, environment("SLUICE_EMULATE"), "");
  first(&options.log, environment("SLUICE_LOG"), file.log);
  for (std::string* name : {&options.token_file, &options.tls.ca_file,
                            &options.tls.certificate_file, &options.tls.key_file})
    if (!name->empty()) *name = std::filesystem::absolute(*name).string();
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
  put("SLUICE_TLS", settings.tls.mode);
  put("SLUICE_TLS_CA", settings.tls.ca_file);
  put("SLUICE_TLS_CERT", settings.tls.certificate_file);
  put("SLUICE_TLS_KEY", settings.tls.key_file);
  put("SLUICE_EMULATE", settings.emulate);
  put("SLUICE_LOG", settings.log);
  if (!settings.is_local) put("SLUICE_MEM_LIMIT", settings.memory);
  put("SLUICE_COMPUTE_LIMIT", settings.compute_limit);
}

}  // namespace sluice::tool
