#include "shim/hello.h"

#include "common/read_file.h"
#include "protocol/opcodes.h"
#include "protocol/wire.h"

#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>

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

/// Those of other systems, too: a container that was made for them keeps its limits here.
bool is_limit(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "SLUICE_MEM_LIMIT",
      "SLUICE_COMPUTE_LIMIT",
      "CUDA_DEVICE_MEMORY_LIMIT",
      "CUDA_DEVICE_SM_LIMIT",
      "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
      "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
  };
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         name.starts_with("CUDA_DEVICE_MEMORY_LIMIT_");
}

std::string limits_from_environment() {
  std::string out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || !is_limit(line.substr(0, equals)) ||
        equals + 1 == line.size() || line.find('\n') != std::string_view::npos)
      continue;
    out.append(line).append("\n");
  }
  return out;
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
  hello.limits = limits_from_environment();
  return hello;
}

}  // namespace sluice::shim
