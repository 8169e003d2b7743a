#include "server/control/client.h"

#include "common/format.h"
#include "server/control/convert.h"
#include "transport/transport.h"

#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>
#include <kj/io.h>

#include <chrono>

namespace sluice::server::control {
namespace {
constexpr auto kConnectTime = std::chrono::seconds(3);
constexpr auto kAnswerTime = 20 * kj::SECONDS;
}  // namespace

struct Client::Connection {
  Connection(kj::AsyncIoContext context, int fd)
      : io(kj::mv(context)),
        stream(io.lowLevelProvider->wrapSocketFd(kj::AutoCloseFd(fd))),
        rpc(*stream),
        control(rpc.bootstrap().castAs<capnp_control::Control>()) {}

  /// Sends the request and gives the answer to `take`; KJ's exceptions end here.
  template <class Value, class Request, class Take>
  Result<Value> call(Request request, Take take) {
    try {
      auto answer =
          io.provider->getTimer().timeoutAfter(kAnswerTime, request.send()).wait(io.waitScope);
      return take(kj::mv(answer));
    } catch (const kj::Exception& error) {
      if (error.getType() == kj::Exception::Type::UNIMPLEMENTED)
        return fail(ErrorCode::kVersion, "the server is older than this tool and cannot do that");
      return fail(ErrorCode::kPeerClosed,
                  format("the server did not answer: {}", error.getDescription().cStr()));
    }
  }

  kj::AsyncIoContext io;
  kj::Own<kj::AsyncIoStream> stream;
  capnp::TwoPartyClient rpc;
  capnp_control::Control::Client control;
};

namespace {

template <class Answer>
Result<Changed> changed_of(Answer answer) {
  const auto changed = answer.getChanged();
  SLUICE_CHECK(read(changed.getProblem()));
  return read(changed);
}

template <class Answer>
Result<std::uint32_t> count_of(Answer answer) {
  SLUICE_CHECK(read(answer.getProblem()));
  return answer.getCount();
}

}  // namespace

Client::Client(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::connect(const std::string& path) {
  SLUICE_TRY(const transport::Address address, transport::parse_address("unix:" + path));
  SLUICE_TRY(Fd fd, transport::connect_socket(address, kConnectTime));
  try {
    return std::unique_ptr<Client>(
        new Client(std::make_unique<Connection>(kj::setupAsyncIo(), fd.release())));
  } catch (const kj::Exception& error) {
    return fail(ErrorCode::kSystem, error.getDescription().cStr());
  }
}

Result<ServerInfo> Client::server() {
  return connection_->call<ServerInfo>(connection_->control.serverRequest(), [](auto answer) {
    return Result<ServerInfo>(read(answer.getServer()));
  });
}

Result<std::vector<SessionInfo>> Client::sessions() {
  return connection_->call<std::vector<SessionInfo>>(
      connection_->control.sessionsRequest(), [](auto answer) {
        std::vector<SessionInfo> out;
        for (const auto session : answer.getSessions()) out.push_back(read(session));
        return Result<std::vector<SessionInfo>>(std::move(out));
      });
}

Result<std::vector<TenantInfo>> Client::tenants() {
  return connection_->call<std::vector<TenantInfo>>(
      connection_->control.tenantsRequest(), [](auto answer) {
        std::vector<TenantInfo> out;
        for (const auto tenant : answer.getTenants()) out.push_back(read(tenant));
        return Result<std::vector<TenantInfo>>(std::move(out));
      });
}

Result<Changed> Client::set_tenant(const std::string& name, const config::TenantOverride& change) {
  auto request = connection_->control.setTenantRequest();
  write(name, change, request.initChange());
  return connection_->call<Changed>(kj::mv(request),
                                    [](auto answer) { return changed_of(kj::mv(answer)); });
}

Result<Changed> Client::remove_tenant(const std::string& name, bool is_forced) {
  auto request = connection_->control.removeTenantRequest();
  request.setName(name);
  request.setIsForced(is_forced);
  return connection_->call<Changed>(kj::mv(request),
                                    [](auto answer) { return changed_of(kj::mv(answer)); });
}

Result<Changed> Client::new_token(const std::string& tenant) {
  auto request = connection_->control.newTokenRequest();
  request.setTenant(tenant);
  return connection_->call<Changed>(kj::mv(request),
                                    [](auto answer) { return changed_of(kj::mv(answer)); });
}

Result<Changed> Client::revoke_token(const std::string& tenant) {
  auto request = connection_->control.revokeTokenRequest();
  request.setTenant(tenant);
  return connection_->call<Changed>(kj::mv(request),
                                    [](auto answer) { return changed_of(kj::mv(answer)); });
}

Result<std::uint32_t> Client::kill_session(std::uint64_t id) {
  auto request = connection_->control.killSessionRequest();
  request.setId(id);
  return connection_->call<std::uint32_t>(kj::mv(request),
                                          [](auto answer) { return count_of(kj::mv(answer)); });
}

Result<std::uint32_t> Client::kill_tenant(const std::string& tenant) {
  auto request = connection_->control.killTenantRequest();
  request.setTenant(tenant);
  return connection_->call<std::uint32_t>(kj::mv(request),
                                          [](auto answer) { return count_of(kj::mv(answer)); });
}

Result<std::string> Client::reload() {
  return connection_->call<std::string>(connection_->control.reloadRequest(),
                                        [](auto answer) -> Result<std::string> {
                                          SLUICE_CHECK(read(answer.getProblem()));
                                          return text(answer.getSummary());
                                        });
}

Result<std::vector<store::UsageGroup>> Client::usage(const store::UsageQuery& query) {
  using Groups = std::vector<store::UsageGroup>;
  auto request = connection_->control.usageRequest();
  write(query, request.initQuery());
  return connection_->call<Groups>(kj::mv(request), [](auto answer) -> Result<Groups> {
    SLUICE_CHECK(read(answer.getProblem()));
    Groups out;
    for (const auto group : answer.getGroups()) out.push_back(read(group));
    return out;
  });
}

}  // namespace sluice::server::control
