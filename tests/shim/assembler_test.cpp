// Framing: whatever the pieces in which bytes arrive, records come out whole; damaged framing is an
// error.
#include "protocol/record_assembler.h"
#include "transport/transport.h"

#include <gtest/gtest.h>

#include <cstring>

namespace sluice::shim {
namespace {

using RecordAssembler = wire::RecordAssembler<transport::RecvSink>;

struct Collector final : wire::RecordHandler {
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> records;
  Status on_record(const wire::RecordHeader& header, std::span<const std::byte> body) override {
    records.emplace_back(header.seq, std::vector<std::byte>(body.begin(), body.end()));
    return {};
  }
};

std::vector<std::byte> stream_of(std::initializer_list<std::size_t> body_bytes) {
  std::vector<std::byte> stream;
  std::uint64_t seq = 0;
  for (const std::size_t bytes : body_bytes) {
    wire::RecordHeader header{};
    header.bytes = static_cast<std::uint32_t>(sizeof header + bytes);
    header.seq = ++seq;
    const auto* raw = reinterpret_cast<const std::byte*>(&header);
    stream.insert(stream.end(), raw, raw + sizeof header);
    stream.insert(stream.end(), bytes, static_cast<std::byte>(seq));
  }
  return stream;
}

TEST(RecordAssembler, GivesTheSameRecordsForEverySizeOfPiece) {
  const auto stream = stream_of({0, 8, 64, 4096, 16, 0});
  for (std::size_t piece = 1; piece < 200; ++piece) {
    Collector collector;
    RecordAssembler assembler(collector);
    for (std::size_t at = 0; at < stream.size(); at += piece)
      ASSERT_TRUE(
          assembler.on_bytes(std::span(stream).subspan(at, std::min(piece, stream.size() - at))));
    ASSERT_EQ(6u, collector.records.size()) << "pieces of " << piece;
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(i + 1, collector.records[i].first);
      for (const std::byte byte : collector.records[i].second)
        EXPECT_EQ(static_cast<std::byte>(i + 1), byte);
    }
    EXPECT_EQ(4096u, collector.records[3].second.size());
  }
}

TEST(RecordAssembler, RefusesLengthsThatNoRecordHas) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{23}, std::size_t{25},
                                  wire::kRecordBytesMax + 8, std::size_t{0xFFFFFFF8}}) {
    Collector collector;
    RecordAssembler assembler(collector);
    wire::RecordHeader header{};
    header.bytes = static_cast<std::uint32_t>(bytes);
    const auto raw = std::as_bytes(std::span(&header, 1));
    EXPECT_FALSE(assembler.on_bytes(raw)) << bytes;
    RecordAssembler slow(collector);
    Status last;
    for (std::size_t i = 0; i < raw.size() && last; ++i) last = slow.on_bytes(raw.subspan(i, 1));
    EXPECT_FALSE(last) << bytes << " bytewise";
    EXPECT_TRUE(collector.records.empty());
  }
}

}  // namespace
}  // namespace sluice::shim
