// What a client that looks at a slice makes of answers, right and wrong.
#include "protocol/slice_client.h"

#include "protocol/frame_io.h"
#include "transport/stream/byte_stream.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace sluice::wire {
namespace {

using namespace std::chrono_literals;

class SliceClient : public ::testing::Test {
 protected:
  SliceClient() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(0, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    client_ = transport::make_socket_stream(Fd(ends[0]));
    server_ = Fd(ends[1]);
  }
  static FrameDeadline soon() { return std::chrono::steady_clock::now() + 20s; }
  void answer(const Frame& frame) { ASSERT_TRUE(write_frame(server_.get(), frame)); }
  void welcome(std::uint64_t feature_bits) {
    Welcome frame;
    frame.feature_bits = feature_bits;
    answer(frame);
  }
  Status begin() {
    Hello hello;
    hello.tenant = "alice";
    return begin_looking(*client_, hello, soon());
  }

  std::unique_ptr<transport::ByteStream> client_;
  Fd server_;
};

TEST_F(SliceClient, AsksForNoMoreThanToLook) {
  welcome(kFeatureCheckOnly | kFeatureSliceStatus);
  ASSERT_TRUE(begin());
  const auto hello = read_frame(server_.get(), soon());
  ASSERT_TRUE(hello && std::holds_alternative<Hello>(*hello));
  EXPECT_EQ(kFeatureCheckOnly | kFeatureSliceStatus, std::get<Hello>(*hello).feature_bits);
  EXPECT_EQ("alice", std::get<Hello>(*hello).tenant);
  SliceStatus slice;
  slice.tenant = "alice";
  answer(slice);
  const auto status = ask_slice(*client_, true, soon());
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ("alice", status->tenant);
}

TEST_F(SliceClient, AServerThatDoesNotKnowTheQuestionIsTooOld) {
  // Broken: it closes the connection, and the user reads that the server is gone.
  welcome(kFeatureCheckOnly);
  const Status begun = begin();
  ASSERT_FALSE(begun);
  EXPECT_EQ(ErrorCode::kVersion, begun.error().code);
  EXPECT_NE(std::string::npos, begun.error().message.find("update the server"));
}

TEST_F(SliceClient, ARefusalIsSaidInTheServersWords) {
  answer(Refusal{RefusalCode::kWrongToken, "wrong token for tenant \"alice\""});
  const Status begun = begin();
  ASSERT_FALSE(begun);
  EXPECT_EQ(ErrorCode::kPermission, begun.error().code);
  EXPECT_NE(std::string::npos, begun.error().message.find("wrong token"));
}

TEST_F(SliceClient, AnotherAnswerIsNone) {
  welcome(kFeatureSliceStatus);
  ASSERT_TRUE(begin());
  answer(Pong{1, 0});
  const auto status = ask_slice(*client_, false, soon());
  ASSERT_FALSE(status);
  EXPECT_EQ(ErrorCode::kProtocol, status.error().code);
}

TEST(SliceFigures, PercentIsOfTheShare) {
  SliceStatus status;
  status.limit_ppm = 500'000;
  EXPECT_EQ(100u, busy_percent(status, 500, 1000));
  EXPECT_EQ(50u, busy_percent(status, 250, 1000));
  EXPECT_EQ(100u, busy_percent(status, 900, 1000)) << "more than it may have is all that it may";
  EXPECT_EQ(0u, busy_percent(status, 10, 0)) << "nothing is known yet";
  status.limit_ppm = 0;
  EXPECT_EQ(25u, busy_percent(status, 250, 1000)) << "a server that does not say has no limit";
}

TEST(SliceFigures, NothingIsFreeBeyondTheLimit) {
  // Broken: a tenant whose limit was lowered has 17 billion gigabytes free.
  SliceDevice device;
  device.total_bytes = 10;
  device.used_bytes = 30;
  EXPECT_EQ(0u, free_bytes(device));
  device.used_bytes = 3;
  EXPECT_EQ(7u, free_bytes(device));
}

}  // namespace
}  // namespace sluice::wire
