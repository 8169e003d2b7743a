// The decoder of bootstrap frames reads what anybody sends who can connect: it must neither crash
// nor accept what it cannot repeat.
#include "protocol/bootstrap.h"
#include "tests/fuzz/harness.h"

#include <cstdlib>

namespace wire = sluice::wire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::span<const std::byte> input = std::as_bytes(std::span(data, bytes));
  const auto length = wire::frame_bytes(input);
  if (length && *length > wire::kFrameBytesMax) std::abort();
  const auto frame = wire::decode_frame(input);
  if (!frame) {
    if (frame.error().code != sluice::ErrorCode::kProtocol) std::abort();
    return 0;
  }
  const auto again = wire::decode_frame(wire::encode_frame(*frame));
  if (!again || *again != *frame) std::abort();
  return 0;
}

std::optional<std::size_t> fuzz_length_offset() {
  return 4;
}

std::vector<std::vector<std::uint8_t>> fuzz_corpus() {
  wire::SessionKey key{};
  key.fill(0x5a);
  wire::Hello hello;
  hello.tenant = "alice";
  hello.token = "secret";
  wire::Welcome welcome;
  welcome.session_key = key;
  welcome.devices.resize(2);
  welcome.devices[0].name = "a device";
  welcome.devices[0].attributes = {{1, 1024}, {16, 4}, {75, 12}};
  wire::SliceStatus status;
  status.devices.resize(1);
  status.devices[0].name = "a device";
  status.devices[0].attributes = {{1, 1024}};
  status.sessions.resize(2);
  status.sessions[0].program = "train";
  status.sessions[0].uses = {{0, 0, 4096, 512, 2, 1}};
  const wire::Frame frames[] = {hello,
                                welcome,
                                wire::Refusal{wire::RefusalCode::kWrongToken, "wrong token"},
                                wire::Attach{key},
                                wire::SharedMemory{1},
                                wire::SharedMemoryAnswer{0, "no"},
                                wire::Attached{},
                                wire::Ping{1},
                                wire::Pong{1, 2},
                                wire::Ending{},
                                wire::SliceQuery{1},
                                status};
  std::vector<std::vector<std::uint8_t>> corpus;
  for (const wire::Frame& frame : frames) {
    auto& input = corpus.emplace_back();
    for (const std::byte byte : wire::encode_frame(frame))
      input.push_back(static_cast<std::uint8_t>(byte));
  }
  return corpus;
}
