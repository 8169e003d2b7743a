// The worker's half of agreeing on shared memory. What a client offers is not to be trusted.
#include "server/worker/data_channel.h"

#include "protocol/frame_io.h"
#include "tests/transport/joining_thread.h"
#include "transport/shm/memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

namespace sluice::server {
namespace {

namespace shm = transport::shm;

class DataChannel : public ::testing::Test {
 protected:
  DataChannel() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    client_.reset(ends[0]);
    worker_.reset(ends[1]);
  }
  /// What the worker answers to the frame, and the channel it then has.
  wire::SharedMemoryAnswer offer(int memory, const wire::Frame& frame) {
    const JoiningThread client(
        [&] { EXPECT_TRUE(wire::write_frame_with(memory, client_.get(), frame)); });
    channel_ = open_data_channel(std::move(worker_), {.offers_shared_memory = true});
    if (!channel_) return {};
    const auto answer = wire::read_frame(client_.get(), far());
    const auto* found = answer ? std::get_if<wire::SharedMemoryAnswer>(&*answer) : nullptr;
    EXPECT_NE(found, nullptr);
    return found != nullptr ? *found : wire::SharedMemoryAnswer{};
  }
  static wire::FrameDeadline far() {
    return std::chrono::steady_clock::now() + std::chrono::seconds(60);
  }
  void expect_the_socket_after_refusal(const wire::SharedMemoryAnswer& answer, const char* why) {
    EXPECT_EQ(answer.is_accepted, 0);
    EXPECT_NE(answer.message.find(why), std::string::npos) << answer.message;
    ASSERT_TRUE(channel_);
    EXPECT_STREQ((*channel_)->caps().name, "unix");
    ASSERT_EQ(::send(client_.get(), "x", 1, 0), 1);
    EXPECT_TRUE((*channel_)->wait(far()).value_or(false));
  }

  Fd client_, worker_;
  Result<std::unique_ptr<transport::Channel>> channel_;
};

TEST_F(DataChannel, TakesGoodMemory) {
  const auto memory = shm::make_memory();
  ASSERT_TRUE(memory);
  const auto answer = offer(memory->fd.get(), wire::SharedMemory{shm::kLayoutVersion});
  EXPECT_EQ(answer.is_accepted, 1) << answer.message;
  ASSERT_TRUE(channel_);
  EXPECT_STREQ((*channel_)->caps().name, "shm");
}

TEST_F(DataChannel, RefusesMemoryThatCouldShrinkAndGoesOnOverTheSocket) {
  Fd memory(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(memory.get(), static_cast<off_t>(shm::kMemoryBytes)), 0);
  expect_the_socket_after_refusal(offer(memory.get(), wire::SharedMemory{shm::kLayoutVersion}),
                                  "sealed");
}

TEST_F(DataChannel, RefusesAnotherLayoutAndGoesOnOverTheSocket) {
  // Broken: a newer client on the same host cannot use an older server at all.
  const auto memory = shm::make_memory();
  ASSERT_TRUE(memory);
  expect_the_socket_after_refusal(
      offer(memory->fd.get(), wire::SharedMemory{shm::kLayoutVersion + 1}), "layout");
}

TEST_F(DataChannel, RefusesAnOfferWithoutMemoryAndGoesOnOverTheSocket) {
  expect_the_socket_after_refusal(offer(-1, wire::SharedMemory{shm::kLayoutVersion}), "come along");
}

TEST_F(DataChannel, AnythingElseEndsTheSession) {
  offer(-1, wire::Attached{});
  ASSERT_FALSE(channel_);
  EXPECT_EQ(channel_.error().code, ErrorCode::kProtocol);
}

TEST_F(DataChannel, WithoutAnOfferNothingIsRead) {
  ASSERT_EQ(::send(client_.get(), "x", 1, 0), 1);
  channel_ = open_data_channel(std::move(worker_), {});
  ASSERT_TRUE(channel_);
  EXPECT_TRUE((*channel_)->wait(far()).value_or(false));
}

}  // namespace
}  // namespace sluice::server
