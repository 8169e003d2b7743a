#include "tools/sluicectl/commands.h"

#include "common/format.h"
#include "tools/sluicectl/views.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace sluice::tool {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

int done(const Session& session, const Result<server::control::Changed>& changed,
         const std::string& word) {
  if (!changed) return refuse(changed.error());
  if (!changed->warning.empty()) std::fprintf(stderr, "sluicectl: %s\n", changed->warning.c_str());
  if (session.wants_json)
    print_json(json_of(changed->tenant));
  else
    std::printf("tenant %s %s\n", changed->tenant.name.c_str(), word.c_str());
  return 0;
}

int counted(const Session& session, std::uint32_t count) {
  if (session.wants_json)
    print_json({{"ended", count}});
  else
    std::printf("%u session%s ended\n", count, count == 1 ? "" : "s");
  return 0;
}

}  // namespace

int refuse(const Error& error) {
  std::fprintf(stderr, "sluicectl: %s\n", error.message.c_str());
  return error.code == ErrorCode::kInvalidArgument ? kExitWrong : kExitRefused;
}

Result<std::unique_ptr<server::control::Client>> connect(std::string path) {
  if (path.empty()) path = environment("SLUICE_CONTROL");
  if (path.empty()) {
    const std::string runtime = environment("XDG_RUNTIME_DIR");
    std::vector<std::string> places = {"/run/sluice/sluiced.sock.control"};
    if (!runtime.empty()) places.push_back(runtime + "/sluice/sluiced.sock.control");
    const auto found = std::find_if(places.begin(), places.end(), [](const std::string& place) {
      return ::access(place.c_str(), F_OK) == 0;
    });
    if (found == places.end())
      return fail(ErrorCode::kNotFound,
                  format("no server: there is no {}; name the socket with --socket or "
                         "SLUICE_CONTROL (sluiced logs it as control=)",
                         places.back()));
    path = *found;
  }
  auto client = server::control::Client::connect(path);
  if (client) return client;
  switch (client.error().code) {
    case ErrorCode::kNotFound:
      return fail(ErrorCode::kNotFound,
                  format("no server is listening at {}; start sluiced, or name its control socket "
                         "with --socket or SLUICE_CONTROL (sluiced logs it as control=)",
                         path));
    case ErrorCode::kPermission:
      return fail(ErrorCode::kPermission,
                  format("you may not use {}; be the server's user, or in the group of [control] "
                         "group in sluiced.toml",
                         path));
    default:
      return client;
  }
}

int list_tenants(Session session) {
  const auto tenants = session.client.tenants();
  if (!tenants) return refuse(tenants.error());
  session.wants_json ? print_json(json_of(*tenants)) : print(table_of(*tenants));
  return 0;
}

int show_tenant(Session session, const std::string& name) {
  const auto tenants = session.client.tenants();
  if (!tenants) return refuse(tenants.error());
  for (const auto& tenant : *tenants) {
    if (tenant.name != name) continue;
    session.wants_json ? print_json(json_of(tenant)) : print(text_of(tenant));
    return 0;
  }
  return refuse({ErrorCode::kNotFound, format("there is no tenant \"{}\"", name)});
}

int set_tenant(Session session, const std::string& name, const config::TenantOverride& change) {
  const auto changed = session.client.set_tenant(name, change);
  const int status = done(session, changed, "is set");
  if (status == 0 && !changed->tenant.has_token)
    std::fprintf(stderr, "sluicectl: it has no token yet: sluicectl token new %s\n", name.c_str());
  return status;
}

int remove_tenant(Session session, const std::string& name, bool is_forced) {
  return done(session, session.client.remove_tenant(name, is_forced), "is removed");
}

int new_token(Session session, const std::string& tenant) {
  const auto changed = session.client.new_token(tenant);
  if (!changed) return refuse(changed.error());
  if (!changed->warning.empty()) std::fprintf(stderr, "sluicectl: %s\n", changed->warning.c_str());
  if (session.wants_json) {
    print_json({{"tenant", changed->tenant.name}, {"token", changed->token}});
    return 0;
  }
  std::fprintf(stderr,
               "sluicectl: the new token of tenant %s; it is not shown again, and an older one no "
               "longer works. Keep it in a file of mode 0600.\n",
               changed->tenant.name.c_str());
  std::printf("%s\n", changed->token.c_str());
  return 0;
}

int revoke_token(Session session, const std::string& tenant) {
  return done(session, session.client.revoke_token(tenant), "has no token now: nobody is let in");
}

int list_sessions(Session session) {
  const auto sessions = session.client.sessions();
  if (!sessions) return refuse(sessions.error());
  session.wants_json ? print_json(json_of(*sessions)) : print(table_of(*sessions));
  return 0;
}

int kill_sessions(Session session, const std::vector<std::uint64_t>& ids) {
  std::uint32_t count = 0;
  int status = 0;
  for (const std::uint64_t id : ids) {
    const auto killed = session.client.kill_session(id);
    if (killed)
      count += *killed;
    else
      status = refuse(killed.error());
  }
  counted(session, count);
  return status;
}

int kill_tenant(Session session, const std::string& tenant) {
  const auto killed = session.client.kill_tenant(tenant);
  return killed ? counted(session, *killed) : refuse(killed.error());
}

int reload(Session session) {
  const auto summary = session.client.reload();
  if (!summary) return refuse(summary.error());
  if (session.wants_json)
    print_json({{"summary", *summary}});
  else
    std::printf("%s\n", summary->c_str());
  return 0;
}

}  // namespace sluice::tool
