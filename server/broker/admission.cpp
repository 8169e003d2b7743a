// Who is let in, and which data connection belongs to whom.
#include "common/format.h"
#include "common/log.h"
#include "common/release.h"
#include "protocol/opcodes.h"
#include "protocol/wire.h"
#include "server/broker/broker.h"
#include "server/broker/printable.h"
#include "server/broker/session.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace sluice::server {
namespace {

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::uint64_t wall_clock_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

/// Nothing encrypts what travels by RDMA: a server that requires encryption must say no here.
bool may_use_ucx(const config::Config& config) {
  return !config.require_encryption;
}

}  // namespace

/// Whose client it is; null: it was refused.
const config::Tenant* Broker::authenticate(const std::shared_ptr<Client>& client,
                                           const wire::Hello& hello) {
  using Code = wire::RefusalCode;
  const auto no = [&](Code code, const std::string& why) {
    refuse(client, code, why);
    return nullptr;
  };
  if (hello.protocol_version != wire::kProtocolVersion ||
      hello.opcode_table_hash != wire::kOpcodeTableHash) {
    const char* which = hello.protocol_version > wire::kProtocolVersion ? "update the server"
                        : hello.protocol_version < wire::kProtocolVersion
                            ? "update the client's Sluice libraries"
                            : "install the same release of Sluice on both sides";
    return no(Code::kVersion,
              format("version mismatch: the client speaks protocol {} (table {:x}), the server "
                     "{} (table {:x}); {}",
                     hello.protocol_version, hello.opcode_table_hash, wire::kProtocolVersion,
                     wire::kOpcodeTableHash, which));
  }
  if (phase_ != Phase::kServing)
    return no(Code::kServer, "the server is stopping; try again later");
  if (const std::string why = plain_refusal(*client); !why.empty()) return no(Code::kServer, why);
  // A certificate names its tenant; it stands in for the token.
  const std::string certified = certified_tenant(*client);
  if (!certified.empty() && !hello.tenant.empty() && hello.tenant != certified)
    return no(Code::kUnknownTenant,
              format("the client's certificate belongs to tenant \"{}\", not to \"{}\": leave "
                     "SLUICE_TENANT out, or use that tenant's certificate",
                     certified, hello.tenant));
  const std::string& name = certified.empty() ? hello.tenant : certified;
  const config::Tenant* tenant = tenants_.find(name);
  const config::TokenHash hash =
      config::hash_token(hello.token);  // also for unknown tenants: the same work
  if (tenant == nullptr)
    return no(Code::kUnknownTenant,
              format("unknown tenant \"{}\": check SLUICE_TENANT or --tenant, or add the "
                     "tenant (sluicectl tenant set) on the server",
                     name));
  const bool is_token_right = tenant->token_hash && config::is_same_hash(hash, *tenant->token_hash);
  if (certified.empty() && !is_token_right)
    return no(
        Code::kWrongToken,
        format("wrong token for tenant \"{}\": check SLUICE_TOKEN_FILE or --token-file", name));
  return tenant;
}

void Broker::on_hello(const std::shared_ptr<Client>& client, const wire::Hello& hello) {
  using Code = wire::RefusalCode;
  const config::Tenant* tenant = authenticate(client, hello);
  if (tenant == nullptr) return;
  // A tenant that has all its sessions may still look at them.
  constexpr std::uint64_t kLooks = wire::kFeatureCheckOnly | wire::kFeatureSliceStatus;
  if ((hello.feature_bits & kLooks) == kLooks) return begin_observing(client, *tenant, hello);
  if (ledger_.is_broken())
    return refuse(
        client, Code::kServer,
        "the server's memory ledger is inconsistent and grants nothing; its administrator "
        "must restart it");
  // A session whose client is gone is gone for the tenant; the next one need not wait for it.
  const auto running = std::count_if(sessions_.begin(), sessions_.end(), [&](const auto& s) {
    return s.second->tenant.name == tenant->name && !s.second->is_ending;
  });
  if (static_cast<std::uint32_t>(running) >= tenant->max_sessions)
    return refuse(
        client, Code::kTenantFull,
        format(
            "tenant \"{}\" has {} sessions, which is its limit; end one or raise its max_sessions",
            tenant->name, running));
  if (sessions_.size() >= options_.config.max_sessions)
    return refuse(client, Code::kServer,
                  format("the server has {} sessions, which is its limit; try later or raise "
                         "max_sessions in [server]",
                         sessions_.size()));
  if (const auto limits = parse_client_limits(hello.limits); !limits)
    return refuse(client, Code::kServer, printable(limits.error().message));
  if ((hello.feature_bits & wire::kFeatureCheckOnly) != 0) {
    send(*client, welcome_of(hello));
    return close_client(client);
  }
  start_session(client, *tenant, hello);
}

wire::Welcome Broker::welcome_of(const wire::Hello& hello) const {
  wire::Welcome welcome;
  welcome.protocol_version = wire::kProtocolVersion;
  welcome.feature_bits = wire::kFeatureHeartbeat | wire::kFeatureEnding | wire::kFeatureCheckOnly |
                         wire::kFeatureSharedMemory | wire::kFeatureLanes | wire::kFeatureTls |
                         wire::kFeatureResume | wire::kFeatureResumeEncrypted |
                         wire::kFeatureSliceStatus | wire::kFeatureLimits;
  if (may_use_ucx(options_.config)) welcome.feature_bits |= wire::kFeatureUcx;
  welcome.driver_version = hello.cuda_version;
  welcome.node = options_.config.node.empty() ? host_name() : options_.config.node;
  welcome.heartbeat_ms = static_cast<std::uint32_t>(options_.config.heartbeat.count());
  welcome.heartbeat_timeout_ms =
      static_cast<std::uint32_t>(options_.config.heartbeat_timeout.count());
  welcome.server_instance = instance_;
  welcome.grace_ms = static_cast<std::uint32_t>(options_.config.grace.count());
  welcome.resumes_on_reset = options_.config.resume_on_reset ? 1 : 0;
  welcome.release = kRelease;
  welcome.wall_clock_us = wall_clock_us();
  return welcome;
}

/// Notes it if it may be: each connection of a session comes once, the one for records first.
bool Broker::may_attach(Session& session, const wire::Attach& attach) {
  if (attach.lane == 0) {
    if (session.is_attached || attach.lane_count > wire::kLaneCountMax) return false;
    session.is_attached = true;
    session.is_resumable = attach.is_resumable != 0;
    session.lane_count = attach.lane_count;
    session.missing_lanes = ((1U << attach.lane_count) - 1) << 1;
    return true;
  }
  if (attach.lane > wire::kLaneCountMax) return false;
  const unsigned bit = 1U << attach.lane;
  if ((session.missing_lanes & bit) == 0) return false;
  session.missing_lanes &= ~bit;
  return true;
}

void Broker::on_attach(const std::shared_ptr<Client>& client, const wire::Attach& attach) {
  if (client->tls != nullptr) return close_client(client);  // TLS goes to the broker, no further
  if (attach.is_encrypted != 0) return on_encrypted_attach(client, attach);
  if (const std::string why = plain_refusal(*client); !why.empty())
    return refuse(client, wire::RefusalCode::kServer, why);
  for (const auto& [id, session] : sessions_) {
    if (!config::is_same_hash(attach.session_key, session->key) || !session->is_welcome ||
        session->is_ending || session->is_encrypted || !may_attach(*session, attach))
      continue;
    // The life line alone decides whether a client is there: one that a debugger has stopped, with
    // data waiting for it, must not lose its data connection.
    const int no = 0;
    ::setsockopt(client->fd.get(), SOL_SOCKET, SO_KEEPALIVE, &no, sizeof no);
    if (!send(*client, wire::Attached{}) ||
        !link::send_message(
            session->worker.link.get(),
            link::AttachData{.offers_shared_memory = attach.offers_shared_memory != 0,
                             .is_resumable = session->is_resumable,
                             .survives_reset = options_.config.resume_on_reset,
                             .wants_ucx = attach.wants_ucx != 0 && may_use_ucx(options_.config),
                             .lane = attach.lane,
                             .lane_count = session->lane_count},
            client->fd.get())) {
      close_client(client);
      return end_session(session);
    }
    return close_client(client);  // the worker has its own descriptor
  }
  SLUICE_LOG_WARN("session", "a data connection with an unknown session key is closed");
  close_client(client);
}

}  // namespace sluice::server
