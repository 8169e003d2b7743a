// Copies whose data travels on bulk lanes, and clients that do not keep to what they announce.
#include "tests/transport/lane_pair.h"
#include "tests/worker/client.h"

namespace sluice::test {
namespace {

class OnLanes : public WorkerClient {
 protected:
  OnLanes() { start(0, make_lane_pair()); }

  std::uint64_t write(std::uint64_t lane, std::uint64_t bytes, std::uint64_t stream = 0) {
    wire::copy_h2d_staged args{};
    args.staging = lane;
    args.bytes = bytes;
    args.stream = stream;
    return post(args);
  }
  std::uint64_t read_from(std::uint64_t lane, std::uint64_t bytes, std::uint64_t transfer = 7) {
    wire::copy_d2h_staged args{};
    args.staging = lane;
    args.bytes = bytes;
    args.transfer = transfer;
    return post(args);
  }
  transport::ByteStream& lane(std::size_t i) { return *channel_->lanes()[i]; }
  void bring(std::size_t to, std::uint64_t seq, std::size_t bytes) {
    EXPECT_TRUE(transport::LaneWriter(lane(to)).send(seq, std::vector<std::byte>(bytes)));
  }
  std::uint64_t credit() {
    return receive(wire::Opcode::copy_credit).as<wire::copy_credit>().h2d_bytes;
  }
  bool is_ended() {
    const auto deadline = transport::Clock::now() + std::chrono::seconds(20);
    class Drop final : public transport::RecvSink {
      Status on_bytes(std::span<const std::byte>) override { return {}; }
    } drop;
    for (;;) {
      const auto got = channel_->poll(drop, 1 << 20);
      if (!got) return true;
      if (*got == 0 && !channel_->wait(deadline).value_or(false)) return false;
    }
  }
};

TEST_F(OnLanes, TheDriverReadsWhereTheLaneWasReceived) {
  // Broken: one more copy of every byte.
  const std::uint64_t seq = write(1, 100'000);
  bring(1, seq, 100'000);
  EXPECT_EQ(credit(), 100'000U);
  EXPECT_NE(driver_.copied_from(), nullptr);
  EXPECT_GE(worker_->stats().bytes_in, 100'000U);
}

TEST_F(OnLanes, DataComesOnTheLaneOnceTheDeviceHasWrittenIt) {
  driver_.hold();
  const std::uint64_t seq = read_from(1, 5000);
  settle();
  EXPECT_TRUE(std::none_of(received_.begin(), received_.end(),
                           [](const Received& r) { return r.is(wire::Opcode::host_data_staged); }));
  driver_.finish_all();
  const auto push = receive(wire::Opcode::host_data_staged).as<wire::host_data_staged>();
  EXPECT_EQ(push.transfer, 7U);
  EXPECT_EQ(push.bytes, 5000U);
  EXPECT_EQ(push.staging, 1U);
  ASSERT_TRUE(transport::expect_piece(lane(1), seq, 5000));
  std::vector<std::byte> data(5000);
  ASSERT_TRUE(transport::receive_all(lane(1), data));
  EXPECT_EQ(data, std::vector<std::byte>(5000, std::byte{0x5A}));
}

TEST_F(OnLanes, AClientThatDoesNotReadALaneHoldsUpNobody) {
  // Broken: the completer or the decoder waits for a lane, and every answer with it.
  constexpr std::uint64_t kPieces = 40;
  for (std::uint64_t i = 1; i <= kPieces; ++i) read_from(0, 256 * 1024, i);
  EXPECT_EQ(call(wire::cuCtxSynchronize{}).result(), CUDA_SUCCESS);
  const std::uint64_t seq = write(1, 1000);
  bring(1, seq, 1000);
  EXPECT_EQ(credit(), 1000U);
  for (std::uint64_t i = 1; i <= kPieces; ++i) {
    const Received push = receive(wire::Opcode::host_data_staged);
    EXPECT_EQ(push.as<wire::host_data_staged>().transfer, i);
    ASSERT_TRUE(transport::expect_piece(lane(0), push.header.seq, 256 * 1024));
    ASSERT_TRUE(transport::discard(lane(0), 256 * 1024));
  }
}

TEST_F(OnLanes, AFailedCopyTakesItsDataAndGivesItsCreditBack) {
  // Broken: after a refused copy the next one gets its bytes, or the window stays closed.
  const std::uint64_t bad = write(0, 70'000, 4711);  // no such stream
  bring(0, bad, 70'000);
  EXPECT_EQ(credit(), 70'000U);
  EXPECT_EQ(receive(wire::Opcode::failure).header.seq, bad);
  const std::uint64_t good = write(0, 70'000);
  bring(0, good, 70'000);
  EXPECT_EQ(credit(), 70'000U);
  settle();
}

TEST_F(OnLanes, ACopyForAContextThatIsGoneDoesSo) {
  context_ = 99;
  const std::uint64_t bad = write(0, 3'000'000 / 12);
  bring(0, bad, 250'000);
  EXPECT_EQ(credit(), 250'000U);
  wire::copy_h2d args{};
  args.data_bytes = 800;
  const std::vector<std::byte> data(800);
  post(args, {data});
  EXPECT_EQ(credit(), 800U);
  context_ = kContext;
  const std::uint64_t good = write(0, 10);
  bring(0, good, 10);
  EXPECT_EQ(credit(), 10U);
}

TEST_F(OnLanes, AWrongLaneEndsTheSession) {
  write(2, 10);
  EXPECT_TRUE(is_ended());
}

TEST_F(OnLanes, AWrongSizeEndsTheSession) {
  // Broken: a client makes the worker write beyond its staging memory.
  write(0, 256 * 1024 + 1);
  EXPECT_TRUE(is_ended());
}

TEST_F(OnLanes, AWrongReadEndsTheSession) {
  read_from(9, 10);
  EXPECT_TRUE(is_ended());
}

TEST_F(OnLanes, AHeaderThatFitsNoRecordEndsTheSession) {
  const std::uint64_t seq = write(0, 10);
  bring(0, seq + 5, 10);
  EXPECT_TRUE(is_ended());
}

TEST_F(OnLanes, TheDeathOfALaneEndsTheSession) {
  write(0, 1000);
  lane(0).close();
  EXPECT_TRUE(is_ended());
}

}  // namespace
}  // namespace sluice::test
