#include "server/config/config.h"

#include "common/format.h"
#include "common/read_file.h"
#include "server/config/section.h"
#include "server/config/share_change.h"
#include "server/config/tls_section.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace sluice::config {
namespace {

Status read_server(const toml::table& table, const std::string& path, Config* out) {
  Section s(table, "[server]", path);
  SLUICE_CHECK(s.read("driver", &out->driver));
  SLUICE_CHECK(s.read("node", &out->node));
  SLUICE_CHECK(s.read("log_level", &out->log_level));
  SLUICE_CHECK(s.read("stats_file", &out->stats_file));
  SLUICE_CHECK(s.read("allow_plaintext_network", &out->allow_plaintext_network));
  SLUICE_CHECK(s.read("require_encryption", &out->require_encryption));
  SLUICE_CHECK(s.read("compute_policy", &out->compute_policy));
  SLUICE_CHECK(s.read_duration("kernel_max", &out->kernel_max));
  SLUICE_CHECK(s.read("max_sessions", &out->max_sessions));
  SLUICE_CHECK(s.read("prestart_workers", &out->prestart_workers, kPrestartCountMax));
  SLUICE_CHECK(s.read("state_dir", &out->state_dir));
  SLUICE_CHECK(s.read("io_uring", &out->io_uring));
  SLUICE_CHECK(s.read_duration("grace", &out->grace));
  SLUICE_CHECK(s.read("resume_on_reset", &out->resume_on_reset));
  SLUICE_CHECK(s.read_duration("drain_timeout", &out->drain_timeout));
  SLUICE_CHECK(s.read_duration("heartbeat", &out->heartbeat));
  SLUICE_CHECK(s.read_duration("heartbeat_timeout", &out->heartbeat_timeout));
  if (const toml::node* listen = s.get("listen"); listen != nullptr) {
    if (!listen->is_array())
      return s.wrong(*listen, "listen",
                     "a list of addresses, e.g. [\"unix:/run/sluiced.sock\", \"127.0.0.1:7627\"]");
    for (const toml::node& entry : *listen->as_array()) {
      const auto text = entry.value_exact<std::string>();
      if (!text) return s.wrong(entry, "listen", "addresses in quotes");
      auto address = transport::parse_address(*text);
      if (!address) return s.wrong(entry, "listen", address.error());
      out->listen.push_back(std::move(*address));
    }
  }
  return s.finish();
}

Status read_control(const toml::table& table, const std::string& path, Control* out) {
  Section s(table, "[control]", path);
  SLUICE_CHECK(s.read("socket", &out->socket));
  SLUICE_CHECK(s.read("group", &out->group));
  return s.finish();
}

Status read_metrics(const toml::table& table, const std::string& path, Metrics* out) {
  Section s(table, "[metrics]", path);
  if (const toml::node* listen = s.get("listen"); listen != nullptr) {
    const std::string text = listen->value_exact<std::string>().value_or("");
    const auto colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == text.size() ||
        text.find_first_not_of("0123456789", colon + 1) != std::string::npos)
      return s.wrong(*listen, "listen", "\"HOST:PORT\", for example \"127.0.0.1:9400\"");
    out->listen = text;
  }
  return s.finish();
}

/// context = "free" | "charge"
Status read_context_mode(Section& s, bool* is_charged) {
  const toml::node* const node = s.get("context");
  if (node == nullptr) return {};
  const std::string mode = node->value_exact<std::string>().value_or("");
  if (mode != "free" && mode != "charge")
    return s.wrong(*node, "context",
                   "\"free\" (what contexts and libraries take is not charged to the slice) or "
                   "\"charge\"");
  *is_charged = mode == "charge";
  return {};
}

/// `has_other_proof`: tenants may have a certificate instead of a token.
Result<Tenant> read_tenant(const toml::table& table, const std::string& path,
                           bool has_other_proof) {
  Section s(table, "[[tenant]]", path);
  Tenant tenant;
  std::string hash, file;
  SLUICE_CHECK(s.read("name", &tenant.name));
  SLUICE_CHECK(s.read("token_sha256", &hash));
  SLUICE_CHECK(s.read("token_file", &file));
  SLUICE_CHECK(s.read_size("memory_limit", &tenant.memory_limit_bytes));
  SLUICE_CHECK(read_context_mode(s, &tenant.charges_context));
  SLUICE_CHECK(s.read("max_sessions", &tenant.max_sessions));
  SLUICE_CHECK(s.read_duration("idle_timeout", &tenant.idle_timeout));
  SLUICE_CHECK(s.read_duration("max_duration", &tenant.max_duration));
  SLUICE_TRY(const ShareChange share, read_share(s));
  tenant.share = share.applied_to({});
  SLUICE_CHECK(s.finish());
  const auto incomplete = [&](const std::string& what) {
    return fail(ErrorCode::kInvalidArgument, format("{}:{}: tenant \"{}\": {}", path,
                                                    table.source().begin.line, tenant.name, what));
  };
  if (tenant.name.empty()) return incomplete("name is missing");
  if (const auto share_is_right = scheduler::check(tenant.share); !share_is_right)
    return incomplete(share_is_right.error().message);
  if (hash.empty() && file.empty() && has_other_proof) return tenant;
  if (hash.empty() == file.empty())
    return incomplete("give either token_sha256 or token_file (sluicectl token new makes one)");
  if (!hash.empty()) {
    auto parsed = parse_hash(hash);
    if (!parsed) return incomplete("token_sha256: " + parsed.error().message);
    tenant.token_hash = *parsed;
  } else {
    auto token = read_token_file(file);
    if (!token) return incomplete("token_file: " + token.error().message);
    tenant.token_hash = hash_token(*token);
  }
  return tenant;
}

/// The server only appends; a line that has no place to go would be lost, hours later.
Status check_stats_file(const std::string& file) {
  namespace fs = std::filesystem;
  if (file.empty()) return {};
  std::error_code none;
  if (fs::is_directory(file, none))
    return fail(ErrorCode::kInvalidArgument,
                format("stats_file in [server]: {} is a folder; name a file in it", file));
  const fs::path folder = fs::absolute(file, none).parent_path();
  if (fs::is_directory(folder, none)) return {};
  return fail(ErrorCode::kInvalidArgument,
              format("stats_file in [server]: there is no folder {}; make it, or name a file "
                     "elsewhere",
                     folder.string()));
}

Result<Config> read(const toml::table& root, const std::string& path) {
  Config config;
  Section top(root, "the file", path);
  if (const toml::node* server = top.get("server"); server != nullptr) {
    if (!server->is_table()) return top.wrong(*server, "server", "a [server] section");
    SLUICE_CHECK(read_server(*server->as_table(), path, &config));
  }
  if (const toml::node* control = top.get("control"); control != nullptr) {
    if (!control->is_table()) return top.wrong(*control, "control", "a [control] section");
    SLUICE_CHECK(read_control(*control->as_table(), path, &config.control));
  }
  if (const toml::node* metrics = top.get("metrics"); metrics != nullptr) {
    if (!metrics->is_table()) return top.wrong(*metrics, "metrics", "a [metrics] section");
    SLUICE_CHECK(read_metrics(*metrics->as_table(), path, &config.metrics));
  }
  if (const toml::node* tls = top.get("tls"); tls != nullptr) {
    if (!tls->is_table()) return top.wrong(*tls, "tls", "a [tls] section");
    SLUICE_CHECK(read_tls(*tls->as_table(), path, &config.tls));
  }
  std::set<std::string> names;
  if (const toml::node* tenants = top.get("tenant"); tenants != nullptr) {
    if (!tenants->is_array())
      return top.wrong(*tenants, "tenant", "[[tenant]] sections (two brackets)");
    for (const toml::node& entry : *tenants->as_array()) {
      if (!entry.is_table()) return top.wrong(entry, "tenant", "[[tenant]] sections");
      SLUICE_TRY(Tenant tenant,
                 read_tenant(*entry.as_table(), path, !config.tls.client_ca_file.empty()));
      if (!names.insert(tenant.name).second)
        return fail(ErrorCode::kInvalidArgument, format("{}:{}: tenant \"{}\" is there twice", path,
                                                        entry.source().begin.line, tenant.name));
      config.tenants.push_back(std::move(tenant));
    }
  }
  SLUICE_CHECK(top.finish());
  return config;
}

}  // namespace

Result<Config> parse(const std::string& text, const std::string& path) {
  SLUICE_TRY(const toml::table root, parse_table(text, path));
  return read(root, path);
}

Result<Config> load(const std::string& path) {
  auto root = load_table(path);
  if (root) return read(*root, path);
  return fail(root.error().code == ErrorCode::kInvalidArgument
                  ? root.error()
                  : root.error().with_context("the configuration"));
}

std::string control_socket(const Config& config) {
  if (config.control.socket == "none") return "";
  if (!config.control.socket.empty()) return config.control.socket;
  for (const transport::Address& address : config.listen)
    if (address.kind == transport::Address::Kind::kUnix) return address.path + ".control";
  return "";
}

Status check(const Config& config) {
  constexpr std::string_view kLevels[] = {"trace", "debug", "info", "warn", "error", "off"};
  if (std::find(std::begin(kLevels), std::end(kLevels), config.log_level) == std::end(kLevels))
    return fail(ErrorCode::kInvalidArgument,
                format("log level \"{}\": expected trace, debug, info, warn, error or off",
                       config.log_level));
  if (config.listen.empty())
    return fail(ErrorCode::kInvalidArgument,
                "no listen address: set listen in [server] or use --listen, e.g. --listen "
                "unix:/run/sluiced.sock");
  if (config.tenants.empty() && control_socket(config).empty())
    return fail(ErrorCode::kInvalidArgument,
                "no tenant: add a [[tenant]] section (name, token_sha256 or token_file)");
  if (config.io_uring != "auto" && config.io_uring != "on" && config.io_uring != "off")
    return fail(ErrorCode::kInvalidArgument,
                format("io_uring in [server]: \"{}\"; expected auto, on or off", config.io_uring));
  SLUICE_CHECK(check_stats_file(config.stats_file));
  using namespace std::chrono_literals;
  constexpr std::string_view kPolicies[] = {"fair-share", "strict-slice", "priority"};
  if (std::find(std::begin(kPolicies), std::end(kPolicies), config.compute_policy) ==
      std::end(kPolicies))
    return fail(ErrorCode::kInvalidArgument,
                format("compute_policy in [server] is \"{}\": expected fair-share, strict-slice or "
                       "priority",
                       config.compute_policy));
  if (config.kernel_max < 100ms || config.kernel_max > 1h)
    return fail(ErrorCode::kInvalidArgument,
                "kernel_max in [server]: expected a time from 100ms to 1h");
  if (config.grace < 2s || config.grace > 2min)
    return fail(ErrorCode::kInvalidArgument,
                "grace in [server]: expected a time from 2s to 2m (TCP's own patience)");
  if (config.heartbeat > 1h || config.heartbeat_timeout > 24h ||
      (config.heartbeat > 0s && config.heartbeat_timeout < 2 * config.heartbeat))
    return fail(ErrorCode::kInvalidArgument,
                "heartbeat in [server]: expected up to 1h, and a heartbeat_timeout of at least "
                "twice as much");
  return check_encryption(config);
}

}  // namespace sluice::config
