#include "tools/sluice/client_config.h"

#include "common/size.h"
#include "server/config/section.h"
#include "transport/transport.h"

#include <cstdlib>
#include <filesystem>

namespace sluice::tool {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string resolved(const std::string& file, const std::string& config_path) {
  if (file.empty()) return file;
  if (file.starts_with("~/")) return environment("HOME") + file.substr(1);
  return std::filesystem::path(config_path).parent_path() / file;
}

Status check(const config::Section& s, const toml::table& table, const ClientConfig& c) {
  if (!c.server.empty())
    if (const auto address = transport::parse_address(c.server); !address)
      return s.wrong(*table.get("server"), "server", address.error());
  if (!c.memory.empty())
    if (const auto size = parse_size(c.memory); !size)
      return s.wrong(*table.get("memory"), "memory", size.error());
  if (!c.transport.empty() && c.transport != "shm" && c.transport != "unix" &&
      c.transport != "tcp" && c.transport != "ucx")
    return s.wrong(*table.get("transport"), "transport", "\"shm\", \"unix\", \"tcp\" or \"ucx\"");
  if (!c.tls.mode.empty())
    if (const auto mode = transport::tls::check({c.tls.mode, "", "", ""}); !mode)
      return s.wrong(*table.get("tls"), "tls", mode.error());
  return {};
}

}  // namespace

std::string client_config_path() {
  if (const std::string base = environment("XDG_CONFIG_HOME"); !base.empty())
    return base + "/sluice/config.toml";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.config/sluice/config.toml";
}

Result<ClientConfig> load_client_config(const std::string& path) {
  if (path.empty()) return ClientConfig{};
  const auto loaded = config::load_table(path);
  if (!loaded && loaded.error().code == ErrorCode::kNotFound) return ClientConfig{};
  if (!loaded) return fail(loaded.error());
  const toml::table& root = *loaded;
  config::Section s(root, "the file", path);
  ClientConfig out;
  SLUICE_CHECK(s.read("server", &out.server));
  SLUICE_CHECK(s.read("tenant", &out.tenant));
  SLUICE_CHECK(s.read("token_file", &out.token_file));
  SLUICE_CHECK(s.read("log", &out.log));
  SLUICE_CHECK(s.read("memory", &out.memory));
  SLUICE_CHECK(s.read("transport", &out.transport));
  SLUICE_CHECK(s.read("tls", &out.tls.mode));
  SLUICE_CHECK(s.read("tls_ca", &out.tls.ca_file));
  SLUICE_CHECK(s.read("tls_cert", &out.tls.certificate_file));
  SLUICE_CHECK(s.read("tls_key", &out.tls.key_file));
  SLUICE_CHECK(s.finish());
  SLUICE_CHECK(check(s, root, out));
  for (std::string* name :
       {&out.token_file, &out.tls.ca_file, &out.tls.certificate_file, &out.tls.key_file})
    *name = resolved(*name, path);
  return out;
}

}  // namespace sluice::tool
