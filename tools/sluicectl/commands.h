// What sluicectl asks of a running server. Every function prints its outcome and returns the exit
// status.
#pragma once

#include "common/result.h"
#include "server/config/overrides.h"
#include "server/control/client.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::tool {

inline constexpr int kExitRefused = 1;      ///< the server cannot do that: no such tenant, ...
inline constexpr int kExitWrong = 2;        ///< options, or a configuration file
inline constexpr int kExitUnreachable = 3;  ///< no server, or not for this user

/// The message on stderr, and the exit status that goes with its code.
int refuse(const Error& error);

/// `path` empty: SLUICE_CONTROL, else the usual places.
Result<std::unique_ptr<server::control::Client>> connect(std::string path);

struct Session {
  server::control::Client& client;
  bool wants_json = false;
};

int list_tenants(Session session);
int show_tenant(Session session, const std::string& name);
int set_tenant(Session session, const std::string& name, const config::TenantOverride& change);
int remove_tenant(Session session, const std::string& name, bool is_forced);
/// The token alone on stdout, so that `> FILE` works.
int new_token(Session session, const std::string& tenant);
int revoke_token(Session session, const std::string& tenant);
int list_sessions(Session session);
int kill_sessions(Session session, const std::vector<std::uint64_t>& ids);
int kill_tenant(Session session, const std::string& tenant);
int reload(Session session);
/// Refreshes every `interval` until interrupted, or once.
int top(Session session, std::chrono::milliseconds interval, bool is_once);

}  // namespace sluice::tool
