// Bytes of a data channel, cut into records and taken apart as either end does it: nothing may be
// read outside the input, and what is accepted must be used up exactly.
#include "protocol/all_rows.h"
#include "protocol/reader.h"
#include "protocol/record_assembler.h"
#include "tests/abi/bodies.h"
#include "tests/fuzz/harness.h"

#include <cstdlib>
#include <numeric>

namespace wire = sluice::wire;
using sluice::Status;

namespace {

using Bytes = std::span<const std::byte>;

struct Sink {
  virtual ~Sink() = default;
  virtual Status on_bytes(Bytes bytes) = 0;
};

template <class Args>
Status take(std::uint16_t opcode, Bytes body) {
  Args args;
  std::array<Bytes, Args::kBlobs> blobs;
  SLUICE_CHECK(wire::read_parts(opcode, body, &args, &blobs));
  std::size_t used = sizeof args;
  for (const Bytes blob : blobs) {
    if (!blob.empty() &&
        (blob.data() < body.data() || blob.data() + blob.size() > body.data() + body.size()))
      std::abort();
    used += wire::padded(blob.size());
  }
  if (used != body.size()) std::abort();
  return {};
}

class Taker final : public wire::RecordHandler {
 public:
  Status on_record(const wire::RecordHeader& header, Bytes body) override {
    switch (static_cast<wire::Opcode>(header.opcode)) {
#define TAKE(name)         \
  case wire::Opcode::name: \
    return take<wire::name>(header.opcode, body);
      SLUICE_WIRE_REQUESTS(TAKE)
      SLUICE_WIRE_PUSHES(TAKE)
#undef TAKE
    }
    return sluice::fail(sluice::ErrorCode::kProtocol, "unknown");
  }
};

template <class Args>
void add(std::vector<std::vector<std::uint8_t>>* corpus) {
  Args args{};
  wire::set_lengths(&args, 16);
  const std::vector<std::byte> body = wire::body_of(args, 16);
  wire::RecordHeader header{};
  header.bytes = static_cast<std::uint32_t>(sizeof header + body.size());
  header.opcode = static_cast<std::uint16_t>(Args::kOpcode);
  header.seq = 1;
  auto& input = corpus->emplace_back(sizeof header + body.size());
  std::memcpy(input.data(), &header, sizeof header);
  std::memcpy(input.data() + sizeof header, body.data(), body.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const Bytes input = std::as_bytes(std::span(data, bytes));
  Taker whole_taker;
  wire::RecordAssembler<Sink> whole(whole_taker);
  const bool is_taken = whole.on_bytes(input).has_value();
  // However it is cut on the way, the outcome is the same.
  Taker cut_taker;
  wire::RecordAssembler<Sink> cut(cut_taker);
  bool is_taken_cut = true;
  for (std::size_t at = 0; at < bytes && is_taken_cut; at += 7)
    is_taken_cut =
        cut.on_bytes(input.subspan(at, std::min<std::size_t>(7, bytes - at))).has_value();
  if (is_taken != is_taken_cut) std::abort();
  return 0;
}

std::optional<std::size_t> fuzz_length_offset() {
  return 0;
}

std::vector<std::vector<std::uint8_t>> fuzz_corpus() {
  std::vector<std::vector<std::uint8_t>> corpus;
#define ADD(name) add<wire::name>(&corpus);
  SLUICE_WIRE_REQUESTS(ADD)
  SLUICE_WIRE_PUSHES(ADD)
#undef ADD
  return corpus;
}
