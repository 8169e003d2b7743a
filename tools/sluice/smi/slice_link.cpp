#include "tools/sluice/smi/slice_link.h"

#include "protocol/slice_client.h"

#include <cuda.h>
#include <unistd.h>

#include <chrono>

namespace sluice::tool {
namespace {

using namespace std::chrono_literals;
constexpr auto kHelloTime = 5s;
/// The server may have to load the driver first.
constexpr auto kAnswerTime = 30s;

wire::Hello hello_of(const Target& target, bool is_encrypted) {
  wire::Hello hello;
  hello.tenant = transport::tls::tenant_to_say(target.tenant, target.tls, is_encrypted);
  hello.token = target.token;
  hello.cuda_version = CUDA_VERSION;
  hello.pid = ::getpid();
  hello.program = "sluice smi";
  return hello;
}

}  // namespace

Result<SliceLink> SliceLink::open(const Target& target) {
  const std::string server = target.address.text();
  auto stream = open_control(target);
  if (!stream) return fail(stream.error().with_context(server));
  const wire::Hello hello = hello_of(target, (*stream)->kind().encrypted);
  const auto begun = wire::begin_looking(**stream, hello, transport::Clock::now() + kHelloTime);
  if (!begun) return fail(begun.error().with_context(server));
  return SliceLink(server, std::move(*stream));
}

Result<wire::SliceStatus> SliceLink::look() {
  auto status = wire::ask_slice(*stream_, true, transport::Clock::now() + kAnswerTime);
  if (!status) return fail(status.error().with_context(server_));
  if (!status->problem.empty())
    return fail(ErrorCode::kNotFound, server_ + " has no devices: " + status->problem);
  return status;
}

}  // namespace sluice::tool
