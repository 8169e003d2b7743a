// Pieces on a bulk lane. What the other end sends is not to be trusted.
#include "lane_pair.h"
#include "pairs.h"
#include "transport/stream/stream_io.h"

#include <gtest/gtest.h>

#include <cstring>

namespace sluice::transport::testing {
namespace {

class Lane : public ::testing::Test {
 protected:
  /// One frame as an end of ours would send it, or not.
  void say(const LaneHeader& header, std::size_t bytes) {
    std::vector<std::byte> frame(sizeof header + bytes);
    std::memcpy(frame.data(), &header, sizeof header);
    fill_pattern(0, std::span(frame).subspan(sizeof header));
    ASSERT_TRUE(send_all(there_, frame));
  }
  ErrorCode expect(std::uint64_t seq, std::uint64_t bytes) {
    const Status status = expect_piece(here_, seq, bytes);
    return status ? ErrorCode{} : status.error().code;
  }

  LoopPair ends_ = make_lane_pair(1);
  ByteStream& here_ = *ends_.client->lanes()[0];
  ByteStream& there_ = *ends_.server->lanes()[0];
};

TEST_F(Lane, BringsPiecesOfAnySizeWhole) {
  LaneWriter writer(there_);
  std::vector<std::byte> data(200'000), got(data.size());
  fill_pattern(0, data);
  std::uint64_t seq = 0;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{65'519},
                                  std::size_t{65'520}, std::size_t{65'521}, data.size()}) {
    ++seq;
    ASSERT_TRUE(writer.send(seq, std::span(data).first(bytes)));
    ASSERT_TRUE(expect_piece(here_, seq, bytes));
    ASSERT_TRUE(receive_all(here_, std::span(got).first(bytes)));
    EXPECT_EQ(std::memcmp(data.data(), got.data(), bytes), 0) << bytes;
  }
}

TEST_F(Lane, PassesOverWhatNobodyTook) {
  // Broken: one refused copy shifts the data of all later ones.
  say({1, 100}, 100);
  say({4, 30'000}, 30'000);
  say({7, 10}, 10);
  ASSERT_TRUE(expect_piece(here_, 7, 10));
  std::byte data[10], expected[10];
  ASSERT_TRUE(receive_all(here_, data));
  fill_pattern(0, expected);
  EXPECT_EQ(std::memcmp(data, expected, sizeof data), 0);
}

TEST_F(Lane, RefusesWhatDoesNotBelongToTheRecord) {
  // Broken: bytes of one copy become those of another.
  say({5, 10}, 10);
  EXPECT_EQ(expect(5, 11), ErrorCode::kProtocol);
}

TEST_F(Lane, RefusesAPieceThatWasNeverAnnounced) {
  say({9, 10}, 10);
  EXPECT_EQ(expect(8, 10), ErrorCode::kProtocol);
}

TEST_F(Lane, RefusesASizeThatNoPieceHas) {
  // Broken: a peer makes the other end read its lane for ever.
  say({1, UINT64_MAX}, 0);
  EXPECT_EQ(expect(2, 10), ErrorCode::kProtocol);
}

TEST_F(Lane, ItsDeathInTheMiddleOfAPieceIsTheEnd) {
  say({1, 100}, 50);
  there_.close();
  ASSERT_TRUE(expect_piece(here_, 1, 100));
  std::byte data[100];
  const Status got = receive_all(here_, data);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kPeerClosed);
}

TEST_F(Lane, AWaitEndsWhenItIsNoLongerWanted) {
  // Broken: a session that is lost leaves a thread waiting for data that never comes.
  const auto unwanted = []() -> Status { return fail(ErrorCode::kPeerClosed, "over"); };
  EXPECT_FALSE(expect_piece(here_, 1, 1, unwanted));
  const std::vector<std::byte> more_than_fits(8'000'000);
  EXPECT_FALSE(send_all(here_, more_than_fits, unwanted));
}

TEST_F(Lane, EndsWithItsChannel) {
  ends_.client->close();
  EXPECT_EQ(expect(1, 1), ErrorCode::kPeerClosed);
  const Status there = expect_piece(there_, 1, 1);
  ASSERT_FALSE(there);
  EXPECT_EQ(there.error().code, ErrorCode::kPeerClosed);
}

}  // namespace
}  // namespace sluice::transport::testing
