#include "protocol/frame_io.h"

#include "common/fd.h"
#include "joining_thread.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
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

TEST_F(FrameIoTest, PassesADescriptorBesideAFrame) {
  // Broken: the worker never gets the memory that it should share.
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const Fd read_end(ends[0]), write_end(ends[1]);
  ASSERT_TRUE(write_frame_with(write_end.get(), a_.get(), SharedMemory{1}));
  ASSERT_TRUE(write_frame(a_.get(), Attached{}));
  Fd passed;
  const Result<Frame> frame = read_frame_with(&passed, b_.get(), in(seconds(60)));
  ASSERT_TRUE(frame) << frame.error().message;
  EXPECT_EQ(*frame, Frame(SharedMemory{1}));
  ASSERT_TRUE(passed.valid());
  EXPECT_EQ(::fcntl(passed.get(), F_GETFD), FD_CLOEXEC);
  ASSERT_EQ(::write(passed.get(), "x", 1), 1);
  char c = 0;
  EXPECT_EQ(::read(read_end.get(), &c, 1), 1);
  Fd none;
  EXPECT_TRUE(read_frame_with(&none, b_.get(), in(seconds(60))));
  EXPECT_FALSE(none.valid());
}

TEST_F(FrameIoTest, KeepsOneOfManyDescriptorsAndClosesTheRest) {
  // Broken: a client uses up the worker's descriptors.
  const std::vector<std::byte> bytes = encode_frame(SharedMemory{1});
  constexpr std::size_t kMany = 16;
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMany * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* c = CMSG_FIRSTHDR(&header);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(kMany * sizeof(int));
  int fds[kMany];
  std::fill_n(fds, kMany, a_.get());
  std::memcpy(CMSG_DATA(c), fds, sizeof fds);
  ASSERT_GT(::sendmsg(a_.get(), &header, 0), 0);
  const int before = ::dup(0);
  ::close(before);
  {
    Fd passed;
    ASSERT_TRUE(read_frame_with(&passed, b_.get(), in(seconds(60))));
    EXPECT_TRUE(passed.valid());
  }
  const int after = ::dup(0);
  ::close(after);
  EXPECT_EQ(before, after) << "descriptors are left open";
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
