#include "tools/sluice/probe.h"

#include "common/read_file.h"
#include "protocol/frame_io.h"
#include "protocol/opcodes.h"
#include "protocol/wire.h"
#include "tools/sluice/local_server.h"

#include <unistd.h>

namespace sluice::tool {

Result<Target> target_of(const Settings& settings) {
  Target out;
  SLUICE_TRY(out.address, transport::parse_address(settings.server));
  out.tenant = settings.tenant.empty() ? LocalServer::kTenant : settings.tenant;
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

Result<std::string> probe(const Target& target) {
  const std::string server = target.address.text();
  SLUICE_TRY(const Fd socket, transport::connect_socket(target.address, std::chrono::seconds(3)));
  wire::Hello hello;
  hello.protocol_version = wire::kProtocolVersion;
  hello.opcode_table_hash = wire::kOpcodeTableHash;
  hello.feature_bits = wire::kFeatureCheckOnly;
  hello.tenant = target.tenant;
  hello.token = target.token;
  hello.pid = ::getpid();
  hello.program = "sluice run (check)";
  SLUICE_CHECK(wire::write_frame(socket.get(), hello));
  SLUICE_TRY(
      const wire::Frame answer,
      wire::read_frame(socket.get(), std::chrono::steady_clock::now() + std::chrono::seconds(30)));
  if (const auto* refusal = std::get_if<wire::Refusal>(&answer))
    return fail(ErrorCode::kPermission, server + " refuses: " + refusal->message);
  const auto* welcome = std::get_if<wire::Welcome>(&answer);
  if (welcome == nullptr)
    return fail(ErrorCode::kProtocol, server + " does not speak Sluice's protocol");
  return welcome->node;
}

}  // namespace sluice::tool
