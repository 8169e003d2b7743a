// The tools' side of the control service: every call waits for its answer. Confined to one thread.
#pragma once

#include "common/result.h"
#include "server/control/types.h"

#include <memory>
#include <string>
#include <vector>

namespace sluice::server::control {

class Client {
 public:
  /// Err(kNotFound), Err(kPermission) and so on say what to do about it.
  static Result<std::unique_ptr<Client>> connect(const std::string& path);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Result<ServerInfo> server();
  Result<std::vector<SessionInfo>> sessions();
  Result<std::vector<TenantInfo>> tenants();
  Result<Changed> set_tenant(const std::string& name, const config::TenantOverride& change);
  Result<Changed> remove_tenant(const std::string& name, bool is_forced);
  Result<Changed> new_token(const std::string& tenant);
  Result<Changed> revoke_token(const std::string& tenant);
  Result<std::uint32_t> kill_session(std::uint64_t id);
  Result<std::uint32_t> kill_tenant(const std::string& tenant);
  Result<std::string> reload();
  Result<std::vector<store::UsageGroup>> usage(const store::UsageQuery& query);

 private:
  struct Connection;
  explicit Client(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace sluice::server::control
