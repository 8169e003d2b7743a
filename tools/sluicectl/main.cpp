// sluicectl, the administrator's tool: checks configurations and makes tokens. (Control of a
// running server comes later.)
#include "server/config/config.h"

#include <CLI/CLI.hpp>

#include <cstdio>

int main(int argc, char** argv) {
  using namespace sluice;
  CLI::App app{"sluicectl: administration of Sluice servers"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "sluicectl 0.1.0");
  CLI::App* config_command =
      app.add_subcommand("config", "configuration files")->require_subcommand(1);
  CLI::App* check = config_command->add_subcommand(
      "check", "check a configuration file; exit status 0 if it is right, 2 if not");
  std::string path;
  check->add_option("file", path, "the file")->required();
  CLI::App* token = app.add_subcommand("token", "tenants' tokens")->require_subcommand(1);
  CLI::App* make =
      token->add_subcommand("new", "make a token and the line for the server's configuration");
  CLI::App* hash = token->add_subcommand("hash", "print the token_sha256 line of a token file");
  std::string token_file;
  hash->add_option("file", token_file, "the tenant's token file")->required();
  CLI11_PARSE(app, argc, argv);

  const auto refuse = [](const Error& error) {
    std::fprintf(stderr, "sluicectl: %s\n", error.message.c_str());
    return 2;
  };
  if (check->parsed()) {
    const auto loaded = config::load(path);
    if (!loaded) return refuse(loaded.error());
    if (const auto checked = config::check(*loaded); !checked) return refuse(checked.error());
    std::printf("%s is right: %zu tenants, %zu listen addresses\n", path.c_str(),
                loaded->tenants.size(), loaded->listen.size());
  } else if (make->parsed()) {
    const auto fresh = config::new_token();
    if (!fresh) return refuse(fresh.error());
    std::printf("token (give it to the tenant, mode 0600): %s\ntoken_sha256 = \"%s\"\n",
                fresh->c_str(), config::hash_text(config::hash_token(*fresh)).c_str());
  } else if (hash->parsed()) {
    const auto read = config::read_token_file(token_file);
    if (!read) return refuse(read.error());
    std::printf("token_sha256 = \"%s\"\n", config::hash_text(config::hash_token(*read)).c_str());
  }
  return 0;
}
