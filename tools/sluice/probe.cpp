#include "tools/sluice/probe.h"

#include "common/read_file.h"
#include "protocol/opcodes.h"
#include "protocol/stream_frames.h"
#include "protocol/wire.h"
#include "transport/emulate/link.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

namespace sluice::tool {
namespace {

double wall_clock_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// "10.0.0.5:7627", "[::1]:7627"; what the user said for a UNIX socket.
std::string numeric_peer(int socket, const std::string& named) {
  sockaddr_storage peer{};
  socklen_t bytes = sizeof peer;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0 ||
      peer.ss_family == AF_UNIX ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&peer), bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return named;
  return peer.ss_family == AF_INET6 ? "[" + std::string(host) + "]:" + port
                                    : std::string(host) + ":" + port;
}

Result<std::unique_ptr<transport::ByteStream>> secure(Fd socket, const Target& target) {
  return transport::tls::open_control(
      std::move(socket), target.address, target.tls, !target.token.empty(),
      +[]() -> Result<const transport::tls::Library*> { return &transport::tls::linked_library(); },
      transport::Clock::now() + std::chrono::seconds(5));
}

constexpr std::chrono::seconds kConnectTime{3};

}  // namespace

Result<Target> target_of(const Settings& settings) {
  Target out;
  SLUICE_TRY(out.address, transport::parse_address(settings.server));
  out.tls = settings.tls;
  out.tenant = settings.tenant;
  out.token = environment("SLUICE_TOKEN");
  if (settings.token_file.empty()) return out;
  auto token = read_token_file(settings.token_file);
  if (!token)
    return fail(token.error().code, token.error().message +
                                        " (named by --token-file, SLUICE_TOKEN_FILE, or token_file "
                                        "in the user's config.toml)");
  out.token = std::move(*token);
  return out;
}

Result<std::unique_ptr<transport::ByteStream>> open_control(const Target& target) {
  SLUICE_TRY(Fd socket, transport::connect_socket(target.address, kConnectTime));
  return secure(std::move(socket), target);
}

Result<Reached> probe(const Target& target) {
  const std::string server = target.address.text();
  const auto start = transport::Clock::now();
  SLUICE_TRY(Fd socket, transport::connect_socket(target.address, kConnectTime));
  Reached out;
  out.connect_us =
      std::chrono::duration<double, std::micro>(transport::Clock::now() - start).count();
  out.reach = transport::reach_of(socket.get());
  out.address = numeric_peer(socket.get(), server);
  auto stream = secure(std::move(socket), target);
  if (!stream) return fail(stream.error().with_context(server));
  out.is_encrypted = (*stream)->kind().encrypted;
  wire::Hello hello;
  hello.protocol_version = wire::kProtocolVersion;
  hello.opcode_table_hash = wire::kOpcodeTableHash;
  hello.feature_bits = wire::kFeatureCheckOnly;
  hello.tenant = transport::tls::tenant_to_say(target.tenant, target.tls, out.is_encrypted);
  hello.token = target.token;
  hello.pid = ::getpid();
  hello.program = "sluice run (check)";
  const double asked_us = wall_clock_us();
  SLUICE_CHECK(wire::write_frame_to(**stream, hello));
  SLUICE_TRY(const wire::Frame answer,
             wire::read_frame_from(**stream, transport::Clock::now() + std::chrono::seconds(30)));
  const double answered_us = wall_clock_us();
  if (const auto* refusal = std::get_if<wire::Refusal>(&answer))
    return fail(ErrorCode::kPermission, server + " refuses: " + refusal->message);
  const auto* welcome = std::get_if<wire::Welcome>(&answer);
  if (welcome == nullptr)
    return fail(ErrorCode::kProtocol, server + " does not speak Sluice's protocol");
  out.node = welcome->node;
  out.release = welcome->release;
  out.feature_bits = welcome->feature_bits;
  // The answer was made somewhere between the two.
  if (welcome->wall_clock_us != 0)
    out.clock = {static_cast<double>(welcome->wall_clock_us) - (asked_us + answered_us) / 2,
                 (answered_us - asked_us) / 2};
  return out;
}

std::string wrong_link(const Settings& settings) {
  if (settings.emulate.empty()) return "";
  if (const auto link = transport::emulate::parse_link(settings.emulate); !link)
    return "--emulate: " + link.error().message;
  if (settings.transport == "shm" || settings.transport == "ucx")
    return "--emulate: shared memory and RDMA are no links that can be emulated; use --transport "
           "unix or tcp";
  return "";
}

std::string wrong_transport(const Settings& settings) {
  const bool is_unix = settings.server.starts_with("unix:");
  if (settings.transport.empty() ||
      (settings.transport == "tcp" || settings.transport == "ucx") != is_unix)
    return "";
  return "--transport " + settings.transport + " does not lead to " + settings.server +
         (is_unix ? "; tcp and ucx need HOST[:PORT]"
                  : "; it needs a server on this host, unix:PATH");
}

}  // namespace sluice::tool
