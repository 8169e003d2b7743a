#include "shim/hello.h"

#include "common/read_file.h"
#include "protocol/opcodes.h"
#include "protocol/wire.h"

#include <cuda.h>
#include <unistd.h>

#include <cstdlib>

namespace sluice::shim {
namespace {

Result<std::string> read_token() {
  const std::string path = environment("SLUICE_TOKEN_FILE");
  if (path.empty()) return environment("SLUICE_TOKEN");
  auto token = read_token_file(path);
  if (!token)
    return fail(token.error().code,
                token.error().message + "; check SLUICE_TOKEN_FILE (sluice run --token-file)");
  return token;
}

std::string program_name() {
  char path[4096];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : "";
}

}  // namespace

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Error no_server_named() {
  return {ErrorCode::kNotFound,
          "No GPU server is named. Start the program with `sluice run --local -- PROGRAM` (a "
          "server on this machine), `sluice run --server HOST[:PORT] -- PROGRAM`, or set "
          "SLUICE_SERVER to HOST[:PORT] or unix:PATH."};
}

Result<wire::Hello> hello_from_environment() {
  wire::Hello hello;
  hello.protocol_version = wire::kProtocolVersion;
  hello.opcode_table_hash = wire::kOpcodeTableHash;
  hello.tenant = environment("SLUICE_TENANT");
  SLUICE_TRY(hello.token, read_token());
  hello.cuda_version = CUDA_VERSION;
  hello.pid = ::getpid();
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) == 0) hello.host = host;
  hello.program = program_name();
  hello.visible_devices = environment("CUDA_VISIBLE_DEVICES");
  return hello;
}

}  // namespace sluice::shim
