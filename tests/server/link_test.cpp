// A worker and its broker must not misread each other.
#include "server/link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sluice::server::link {

class LinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(0, ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
    a_.reset(ends[0]);
    b_.reset(ends[1]);
  }
  template <class T>
  T round_trip(const T& message, int passed = -1) {
    EXPECT_TRUE(send_message(a_.get(), message, passed).has_value());
    auto received = receive_message(b_.get());
    EXPECT_TRUE(received.has_value());
    passed_ = std::move(received->passed);
    return std::get<T>(received->message);
  }
  Fd a_, b_, passed_;
};

TEST_F(LinkTest, CarriesEveryFieldOfAStart) {
  const wire::SessionKey key{1, 2, 3};
  const Start out =
      round_trip(Start{"/opt/driver/libcuda.so.1", 42, "research", {1, 2, 1ull << 40}, key});
  EXPECT_EQ(key, out.session_key);
  EXPECT_EQ("/opt/driver/libcuda.so.1", out.driver_path);
  EXPECT_EQ(42u, out.session_id);
  EXPECT_EQ("research", out.tenant);
  EXPECT_EQ((std::vector<std::uint64_t>{1, 2, 1ull << 40}), out.memory_limit_bytes);
}

TEST_F(LinkTest, CarriesDeviceRecords) {
  Ready ready;
  ready.driver_version = 13000;
  wire::DeviceRecord device;
  device.name = "a device";
  device.uuid[3] = 9;
  device.total_bytes = 1ull << 33;
  device.attributes = {{1, 1024}, {75, -1}};
  ready.devices = {device, device};
  const Ready out = round_trip(ready);
  ASSERT_EQ(2u, out.devices.size());
  EXPECT_EQ("a device", out.devices[1].name);
  EXPECT_EQ(device.uuid, out.devices[1].uuid);
  EXPECT_EQ(device.attributes, out.devices[1].attributes);
}

TEST_F(LinkTest, CarriesEveryFieldOfStatistics) {
  const Stats out = round_trip(Stats{1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(1u, out.calls);
  EXPECT_EQ(5u, out.gpu_us);
  EXPECT_EQ(7u, out.pending_calls);
  round_trip(Stop{});
  EXPECT_TRUE(round_trip(DataReady{true}).is_resumable);
  EXPECT_TRUE(round_trip(ResumeData{true}).is_encrypted);
  EXPECT_EQ(3, round_trip(ResumeData{false, 3}).lane);
  round_trip(ResumeTaken{});
}

TEST_F(LinkTest, PassesADescriptor) {
  int pipe_ends[2];
  ASSERT_EQ(0, ::pipe(pipe_ends));
  const Fd read_end(pipe_ends[0]);
  const Fd write_end(pipe_ends[1]);
  round_trip(AttachData{}, write_end.get());
  const AttachData out = round_trip(AttachData{.offers_shared_memory = true,
                                               .is_encrypted = true,
                                               .is_resumable = true,
                                               .survives_reset = true,
                                               .wants_ucx = true,
                                               .lane = 3,
                                               .lane_count = 4},
                                    write_end.get());
  EXPECT_TRUE(out.offers_shared_memory && out.is_encrypted && out.is_resumable &&
              out.survives_reset && out.wants_ucx && out.lane == 3 && out.lane_count == 4);
  ASSERT_TRUE(passed_.valid());
  EXPECT_EQ(1, ::write(passed_.get(), "x", 1));
  char c = 0;
  EXPECT_EQ(1, ::read(read_end.get(), &c, 1));
}

TEST_F(LinkTest, RefusesDamagedMessages) {
  for (std::size_t bytes = 1; bytes < 64; ++bytes) {
    const std::vector<char> garbage(bytes, static_cast<char>(0xA5));
    ASSERT_EQ(static_cast<ssize_t>(bytes), ::send(a_.get(), garbage.data(), bytes, 0));
    const auto received = receive_message(b_.get());
    ASSERT_FALSE(received.has_value()) << bytes << " bytes of garbage were understood";
    EXPECT_EQ(ErrorCode::kProtocol, received.error().code);
  }
}

TEST_F(LinkTest, TellsThatTheOtherEndIsGone) {
  a_.reset();
  const auto received = receive_message(b_.get());
  ASSERT_FALSE(received.has_value());
  EXPECT_EQ(ErrorCode::kPeerClosed, received.error().code);
}

}  // namespace sluice::server::link
