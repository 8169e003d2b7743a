#include "protocol/frame_io.h"

#include "common/fd.h"
#include "joining_thread.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

namespace sluice::wire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Hello example() {
  Hello hello;
  hello.tenant = "alice";
  return hello;
}

class FrameIoTest : public ::testing::Test {
 protected:
  FrameIoTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    a_.reset(ends[0]);
    b_.reset(ends[1]);
  }
  static FrameDeadline in(milliseconds time) { return std::chrono::steady_clock::now() + time; }

  Fd a_, b_;
};

TEST_F(FrameIoTest, CarriesFramesAndLeavesWhatFollows) {
  // Broken: the first wire records of a data connection are swallowed by the handshake.
  ASSERT_TRUE(write_frame(a_.get(), example()));
  ASSERT_TRUE(write_frame(a_.get(), Attached{}));
  ASSERT_EQ(::send(a_.get(), "rest", 4, MSG_NOSIGNAL), 4);
  const Result<Frame> first = read_frame(b_.get(), in(seconds(60)));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(*first, Frame(example()));
  const Result<Frame> second = read_frame(b_.get(), in(seconds(60)));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(*second, Frame(Attached{}));
  char rest[16] = {};
  EXPECT_EQ(::recv(b_.get(), rest, sizeof rest, MSG_DONTWAIT), 4);
  EXPECT_STREQ(rest, "rest");
}

TEST_F(FrameIoTest, ReadsAFrameThatArrivesByteByByte) {
  // Broken: a slow network breaks the handshake.
  const std::vector<std::byte> bytes =
      encode_frame(Refusal{RefusalCode::kTenantFull, "the slice is used up"});
  const JoiningThread sender([&] {
    for (const std::byte byte : bytes) {
      ASSERT_EQ(::send(a_.get(), &byte, 1, MSG_NOSIGNAL), 1);
      std::this_thread::yield();
    }
  });
  const Result<Frame> frame = read_frame(b_.get(), in(seconds(60)));
  ASSERT_TRUE(frame) << frame.error().message;
  EXPECT_EQ(*frame, Frame(Refusal{RefusalCode::kTenantFull, "the slice is used up"}));
}

TEST_F(FrameIoTest, GivesUpAtTheDeadline) {
  // Broken: a client that connects and says nothing occupies the broker for ever.
  ASSERT_EQ(::send(a_.get(), "SLCE", 4, MSG_NOSIGNAL), 4);
  const Result<Frame> frame = read_frame(b_.get(), in(milliseconds(5)));
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, ErrorCode::kTimeout);
}

TEST_F(FrameIoTest, SaysThatThePeerIsGone) {
  // Broken: a refused client waits for its deadline.
  ASSERT_EQ(::send(a_.get(), "SLC", 3, MSG_NOSIGNAL), 3);
  a_.reset();
  const Result<Frame> frame = read_frame(b_.get(), in(seconds(60)));
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, ErrorCode::kPeerClosed);
  const Status written = write_frame(b_.get(), Attached{});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kPeerClosed);
}

TEST_F(FrameIoTest, RefusesGarbageAfterEightBytes) {
  // Broken: an HTTP client makes the broker wait for the megabytes that its request seems to
  // announce.
  ASSERT_EQ(::send(a_.get(), "GET / HTTP/1.1", 14, MSG_NOSIGNAL), 14);
  const Result<Frame> frame = read_frame(b_.get(), in(seconds(60)));
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, ErrorCode::kProtocol);
}

TEST_F(FrameIoTest, DoesNotSendAFrameThatThePeerWouldRefuse) {
  // Broken: an oversized message looks like a broken peer instead of naming itself.
  const Status status =
      write_frame(a_.get(), Refusal{RefusalCode::kServer, std::string(kFrameBytesMax, 'x')});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  char byte = 0;
  EXPECT_EQ(::recv(b_.get(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST_F(FrameIoTest, WritingToAPeerThatNeverReadsEndsAtTheDeadline) {
  // Broken: one stuck client stops the broker for all.
  const Frame large = Refusal{RefusalCode::kServer, std::string(kFrameBytesMax - 1000, 'x')};
  for (int i = 0; i < 1000; ++i) {
    const Status status = write_frame(a_.get(), large, in(milliseconds(5)));
    if (status) continue;
    EXPECT_EQ(status.error().code, ErrorCode::kTimeout);
    return;
  }
  ADD_FAILURE() << "the socket took everything";
}

}  // namespace
}  // namespace sluice::wire
