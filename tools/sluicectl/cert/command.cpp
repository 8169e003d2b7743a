#include "tools/sluicectl/cert/command.h"

#include "common/format.h"
#include "tools/sluicectl/cert/authority.h"
#include "tools/sluicectl/commands.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace sluice::tool {
namespace {

namespace fs = std::filesystem;

constexpr int kAuthorityDays = 3650;
/// What browsers and other verifiers came to accept as the most; servers are renewed by SIGHUP.
constexpr int kServerDays = 825;
constexpr int kClientDays = 365;

cert::Validity days(int wanted, int otherwise) {
  return {.until = cert::Days(wanted > 0 ? wanted : otherwise)};
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

struct Folder {
  explicit Folder(const std::string& path) : path_(fs::absolute(path)) {}
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] Result<cert::Pair> authority() const {
    return cert::load(file("ca.crt"), file("ca.key"));
  }
  [[nodiscard]] bool has_authority() const { return fs::exists(path_ / "ca.crt"); }
  [[nodiscard]] Status make() const {
    std::error_code failed;
    const bool is_new = fs::create_directories(path_, failed);
    if (failed) return fail(system_error("creating " + path_.string(), failed.value()));
    if (is_new) ::chmod(path_.c_str(), 0700);
    return {};
  }

 private:
  fs::path path_;
};

/// Certificates are public, their folder need not be: the key files are 0600 themselves.
Result<cert::Pair> authority_in(const Folder& folder) {
  SLUICE_CHECK(folder.make());
  if (folder.has_authority()) return folder.authority();
  SLUICE_TRY(cert::Pair made,
             cert::make_authority("Sluice CA of " + host_name(), days(0, kAuthorityDays)));
  SLUICE_CHECK(cert::save(made, folder.file("ca.crt"), folder.file("ca.key"), false));
  return made;
}

Status init(const CertOptions& options) {
  const Folder folder(options.folder);
  const bool had_authority = folder.has_authority();
  SLUICE_TRY(const cert::Pair authority, authority_in(folder));
  const std::vector<std::string> hosts =
      options.hosts.empty() ? std::vector{host_name()} : options.hosts;
  SLUICE_TRY(const cert::Pair server,
             cert::issue_server(authority, hosts, days(options.days, kServerDays)));
  const std::string certificate = folder.file("server.crt"), key = folder.file("server.key");
  SLUICE_CHECK(cert::save(server, certificate, key, options.is_forced));
  std::string names;
  for (const std::string& host : hosts) names += (names.empty() ? "" : ", ") + host;
  std::printf(
      "%s %s (valid until %s)\nmade %s for %s (valid until %s)\n\n"
      "In the server's sluiced.toml:\n\n"
      "    [tls]\n    certificate = \"%s\"\n    key = \"%s\"\n    client_ca = \"%s\"\n\n"
      "To every client, and nothing else of this folder: %s\n\n"
      "    SLUICE_TLS_CA=ca.crt   (sluice run --tls-ca ca.crt, or tls_ca in config.toml)\n\n"
      "Keep ca.key: whoever has it can be any server and any tenant.\n",
      had_authority ? "by the CA" : "made the CA", folder.file("ca.crt").c_str(),
      cert::valid_until(authority).c_str(), certificate.c_str(), names.c_str(),
      cert::valid_until(server).c_str(), certificate.c_str(), key.c_str(),
      folder.file("ca.crt").c_str(), folder.file("ca.crt").c_str());
  return {};
}

Status issue(const CertOptions& options) {
  const Folder folder(options.folder);
  if (!folder.has_authority())
    return fail(ErrorCode::kInvalidArgument,
                format("there is no CA in {}; sluicectl cert init makes one", options.folder));
  SLUICE_TRY(const cert::Pair authority, folder.authority());
  SLUICE_TRY(const cert::Pair client,
             cert::issue_client(authority, options.tenant, days(options.days, kClientDays)));
  const std::string certificate = folder.file("tenant-" + options.tenant + ".crt");
  const std::string key = folder.file("tenant-" + options.tenant + ".key");
  SLUICE_CHECK(cert::save(client, certificate, key, options.is_forced));
  std::printf(
      "made %s for tenant %s (valid until %s)\n\n"
      "To the tenant's machine, the key with mode 0600: %s, %s, %s\n\n"
      "    SLUICE_TLS_CA=ca.crt SLUICE_TLS_CERT=tenant-%s.crt SLUICE_TLS_KEY=tenant-%s.key\n"
      "    (sluice run --tls-ca, --tls-cert, --tls-key; tls_ca, tls_cert, tls_key in "
      "config.toml)\n\n"
      "The server lets it in if client_ca in [tls] is this CA and it has a tenant \"%s\".\n",
      certificate.c_str(), options.tenant.c_str(), cert::valid_until(client).c_str(),
      folder.file("ca.crt").c_str(), certificate.c_str(), key.c_str(), options.tenant.c_str(),
      options.tenant.c_str(), options.tenant.c_str());
  return {};
}

int outcome(const Status& status) {
  if (status) return 0;
  const Error& why = status.error();
  return refuse(why);
}

}  // namespace

int init_certificates(const CertOptions& options) {
  return outcome(init(options));
}
int issue_certificate(const CertOptions& options) {
  return outcome(issue(options));
}

}  // namespace sluice::tool
