#include "tools/sluice/probe.h"

#include "protocol/frame_io.h"
#include "protocol/opcodes.h"
#include "protocol/wire.h"
#include "server/config/token.h"
#include "tools/sluice/local_server.h"
#include "transport/transport.h"

#include <unistd.h>

namespace sluice::tool {

Result<std::string> probe(const Settings& settings) {
  const std::string& server = settings.server;
  SLUICE_TRY(const transport::Address address, transport::parse_address(server));
  SLUICE_TRY(const Fd socket, transport::connect_socket(address, std::chrono::seconds(3)));
  wire::Hello hello;
  hello.protocol_version = wire::kProtocolVersion;
  hello.opcode_table_hash = wire::kOpcodeTableHash;
  hello.feature_bits = wire::kFeatureCheckOnly;
  hello.tenant = settings.tenant.empty() ? LocalServer::kTenant : settings.tenant;
  hello.token = environment("SLUICE_TOKEN");
  if (!settings.token_file.empty()) {
    SLUICE_TRY(hello.token, config::read_token_file(settings.token_file));
  }
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
