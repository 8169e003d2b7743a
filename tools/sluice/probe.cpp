#include "tools/sluice/probe.h"

#include "common/read_file.h"
#include "protocol/opcodes.h"
#include "protocol/stream_frames.h"
#include "protocol/wire.h"

#include <unistd.h>

namespace sluice::tool {

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

Result<std::string> probe(const Target& target) {
  const std::string server = target.address.text();
  SLUICE_TRY(Fd socket, transport::connect_socket(target.address, std::chrono::seconds(3)));
  auto stream = transport::tls::open_control(
      std::move(socket), target.address, target.tls, !target.token.empty(),
      +[]() -> Result<const transport::tls::Library*> { return &transport::tls::linked_library(); },
      transport::Clock::now() + std::chrono::seconds(5));
  if (!stream) return fail(stream.error().with_context(server));
  wire::Hello hello;
  hello.protocol_version = wire::kProtocolVersion;
  hello.opcode_table_hash = wire::kOpcodeTableHash;
  hello.feature_bits = wire::kFeatureCheckOnly;
  hello.tenant =
      transport::tls::tenant_to_say(target.tenant, target.tls, (*stream)->kind().encrypted);
  hello.token = target.token;
  hello.pid = ::getpid();
  hello.program = "sluice run (check)";
  SLUICE_CHECK(wire::write_frame_to(**stream, hello));
  SLUICE_TRY(const wire::Frame answer,
             wire::read_frame_from(**stream, transport::Clock::now() + std::chrono::seconds(30)));
  if (const auto* refusal = std::get_if<wire::Refusal>(&answer))
    return fail(ErrorCode::kPermission, server + " refuses: " + refusal->message);
  const auto* welcome = std::get_if<wire::Welcome>(&answer);
  if (welcome == nullptr)
    return fail(ErrorCode::kProtocol, server + " does not speak Sluice's protocol");
  return welcome->node;
}

}  // namespace sluice::tool
