// What the worker does with records that no shim of ours would send.
#include "protocol/reader.h"

#include "protocol/all_rows.h"
#include "tests/abi/bodies.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace sluice::wire {
namespace {

template <class Args>
Status read(const std::vector<std::byte>& body) {
  Args args;
  std::array<std::span<const std::byte>, Args::kBlobs> blobs;
  return read_parts(static_cast<std::uint16_t>(Args::kOpcode), body, &args, &blobs);
}

template <class Args>
void accepts_what_it_should(const char* name) {
  for (const std::size_t bytes : {0, 1, 7, 8, 9, 100}) {
    Args args{};
    set_lengths(&args, bytes);
    EXPECT_TRUE(read<Args>(body_of(args, bytes))) << name << " with parts of " << bytes;
  }
}

template <class Args>
void refuses_every_other_length(const char* name) {
  Args args{};
  set_lengths(&args, 13);
  const std::vector<std::byte> whole = body_of(args, 13);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const Status status =
        read<Args>({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)});
    ASSERT_FALSE(status) << name << " cut to " << bytes;
    EXPECT_EQ(status.error().code, ErrorCode::kProtocol);
    EXPECT_NE(status.error().message.find(name), std::string::npos) << status.error().message;
  }
  std::vector<std::byte> longer = whole;
  longer.resize(whole.size() + 8);
  EXPECT_FALSE(read<Args>(longer)) << name << " with 8 bytes more";
}

template <class Args>
void refuses_lengths_near_overflow(const char* name) {
  if (Args::kBlobs == 0) return;
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t bytes :
       {kMax, kMax - 6, kMax - 7, kMax - 8, kMax / 2, kMax / 2 + 1, std::uint64_t{1} << 32}) {
    Args args{};
    set_lengths(&args, bytes);
    EXPECT_FALSE(read<Args>(body_of(args, 16))) << name << " announces " << bytes;
  }
}

template <class Args>
void survives_noise(const char* name) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::byte> body(random() % 256);
    for (std::byte& b : body) b = static_cast<std::byte>(random());
    static_cast<void>(read<Args>(body));
  }
  SUCCEED() << name;
}

#define FOR_ALL(check)               \
  SLUICE_WIRE_REQUESTS(CALL_##check) \
  SLUICE_WIRE_PUSHES(CALL_##check)
#define CALL_accepts(name) accepts_what_it_should<name>(#name);
#define CALL_lengths(name) refuses_every_other_length<name>(#name);
#define CALL_overflow(name) refuses_lengths_near_overflow<name>(#name);
#define CALL_noise(name) survives_noise<name>(#name);

TEST(RecordReader, TakesEveryRecordApart){FOR_ALL(accepts)} TEST(RecordReader,
                                                                 RefusesRecordsCutOrExtended){
    FOR_ALL(lengths)} TEST(RecordReader, RefusesLengthsThatOverflow){
    FOR_ALL(overflow)} TEST(RecordReader, SurvivesNoise){FOR_ALL(noise)}

TEST(RecordReader, PointsAtThePartsInTheirOrder) {
  launch args{};
  args.params_bytes = 3;
  args.attributes_bytes = 8;
  std::vector<std::byte> body(sizeof args + 16);
  std::memcpy(body.data(), &args, sizeof args);
  body[sizeof args] = std::byte{1};
  body[sizeof args + 8] = std::byte{2};
  launch got;
  std::array<std::span<const std::byte>, launch::kBlobs> blobs;
  ASSERT_TRUE(read_parts(static_cast<std::uint16_t>(launch::kOpcode), body, &got, &blobs));
  EXPECT_EQ(blobs[0].size(), 3u);
  EXPECT_EQ(blobs[0][0], std::byte{1});
  EXPECT_EQ(blobs[1].size(), 8u);
  EXPECT_EQ(blobs[1][0], std::byte{2});
}

TEST(Opcodes, NamesAreThoseOfTheFunctionsAndUnknownOnesSaySo) {
  EXPECT_STREQ(opcode_name(Opcode::cuMemsetD8Async), "cuMemsetD8Async");
  EXPECT_STREQ(opcode_name(static_cast<Opcode>(0)), "unknown");
  EXPECT_STREQ(opcode_name(static_cast<Opcode>(kOpcodeMax + 1)), "unknown");
  std::set<std::string> names;
#define ADD(name) names.insert(opcode_name(Opcode::name));
  SLUICE_WIRE_REQUESTS(ADD)
  SLUICE_WIRE_PUSHES(ADD)
#undef ADD
  EXPECT_EQ(names.count("unknown"), 0u);
}

}  // namespace
}  // namespace sluice::wire
