// A peer that lies: memory that is not what it should be, and positions that cannot be. The end
// that is lied to gives up the connection and nothing else.
#include "pairs.h"
#include "transport/shm/memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

namespace sluice::transport::testing {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Fd memfd(std::size_t bytes, int seals) {
  Fd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) std::abort();
  if (seals != 0 && ::fcntl(fd.get(), F_ADD_SEALS, seals) != 0) std::abort();
  return fd;
}

void expect_refused(const Fd& memory, const char* why) {
  const auto mapping = shm::adopt_memory(memory.get());
  ASSERT_FALSE(mapping) << why;
  EXPECT_EQ(mapping.error().code, ErrorCode::kProtocol) << why;
}

TEST(ShmTrust, MemoryWhoseSizeIsNotSealedIsRefused) {
  // Broken: a client shrinks the memory and the worker dies of SIGBUS at the next look.
  expect_refused(memfd(shm::kMemoryBytes, 0), "no seals");
  for (const int missing : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL})
    expect_refused(memfd(shm::kMemoryBytes, kSizeSeals & ~missing), "one seal is missing");
}

TEST(ShmTrust, MemoryOfAnotherSizeIsRefused) {
  // Broken: the same, with memory that was too small from the start.
  for (const std::size_t bytes : {std::size_t{0}, shm::kMemoryBytes - 4096, shm::kMemoryBytes + 1})
    expect_refused(memfd(bytes, kSizeSeals), "wrong size");
}

TEST(ShmTrust, WhatIsNoMemoryIsRefused) {
  // Broken: any descriptor of the client's is mapped.
  expect_refused(Fd(::open("/dev/zero", O_RDWR | O_CLOEXEC)), "a device");
  expect_refused(Fd(), "nothing");
  char path[] = "/tmp/sluice-shm-test-XXXXXX";
  Fd file(::mkstemp(path));
  ::unlink(path);
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(shm::kMemoryBytes)), 0);
  expect_refused(file, "a file");
}

TEST(ShmTrust, OwnMemoryIsAsAReceiverWantsItAndCannotBeResized) {
  const auto memory = shm::make_memory();
  ASSERT_TRUE(memory);
  EXPECT_TRUE(shm::adopt_memory(memory->fd.get()));
  EXPECT_NE(::ftruncate(memory->fd.get(), 0), 0);
  EXPECT_NE(::ftruncate(memory->fd.get(), static_cast<off_t>(2 * shm::kMemoryBytes)), 0);
}

/// One honest end, and the memory as a dishonest one sees it.
class Liar : public ::testing::Test {
 protected:
  Liar() {
    auto memory = shm::make_memory();
    if (!memory) std::abort();
    server_ = make_shm_end(memory->fd.get(), std::move(sockets_[1]), shm::Side::kServer);
    memory_.emplace(std::move(memory->mapping));
  }
  Error poll() {
    PatternSink sink;
    const auto got = server_->poll(sink, 1024 * 1024);
    return got ? Error{ErrorCode::kInternal, "no error"} : got.error();
  }
  Error send_a_ring_and_more() {
    const Status sent = server_->write_through(std::vector<std::byte>(shm::kRingBytes + 1));
    return sent ? Error{ErrorCode::kInternal, "no error"} : sent.error();
  }

  std::array<Fd, 2> sockets_ = make_sockets("unix");
  std::unique_ptr<Channel> server_;
  std::optional<shm::Mapping> memory_;
};

TEST_F(Liar, ASenderAheadOfTheRingIsAProtocolError) {
  // Broken: the worker reads beyond the ring.
  for (const std::uint64_t head :
       {std::uint64_t{shm::kRingBytes} + 1, UINT64_MAX, UINT64_MAX / 2, std::uint64_t{1} << 63}) {
    memory_->header().up.head = head;
    EXPECT_EQ(poll().code, ErrorCode::kProtocol) << head;
  }
}

TEST_F(Liar, ASenderThatGoesBackIsAProtocolError) {
  memory_->header().up.head = 1000;
  PatternSink sink;
  ASSERT_EQ(server_->poll(sink, 400).value_or(0), 400U);
  for (const std::uint64_t head : {0, 399, 500}) {
    memory_->header().up.head = head;
    EXPECT_EQ(poll().code, ErrorCode::kProtocol) << head;
  }
}

TEST_F(Liar, AReceiverThatHasReadMoreThanWasSentIsAProtocolError) {
  // Broken: the worker writes over what the client has not read, or beyond the ring.
  memory_->header().down.tail = shm::kRingBytes + 1;
  EXPECT_EQ(send_a_ring_and_more().code, ErrorCode::kProtocol);
}

TEST_F(Liar, AReceiverBeforeTheBeginningIsAProtocolError) {
  memory_->header().down.tail = UINT64_MAX;
  EXPECT_EQ(send_a_ring_and_more().code, ErrorCode::kProtocol);
}

TEST_F(Liar, AReceiverThatGoesBackIsAProtocolError) {
  ASSERT_TRUE(server_->write_through(std::vector<std::byte>(shm::kRingBytes)));
  memory_->header().down.tail = shm::kRingBytes / 2;
  ASSERT_TRUE(server_->write_through(std::vector<std::byte>(shm::kRingBytes / 4)));
  memory_->header().down.tail = shm::kRingBytes / 2 - 1;
  EXPECT_EQ(send_a_ring_and_more().code, ErrorCode::kProtocol);
}

TEST_F(Liar, ChangingWhatWasSentDoesNotReachTheReader) {
  // Broken: a record changes between its check and its use. The sink sees memory that the peer
  // cannot write.
  class Watching final : public RecvSink {
   public:
    explicit Watching(std::byte* ring) : ring_(ring) {}
    Status on_bytes(std::span<const std::byte> bytes) override {
      *ring_ = std::byte{2};
      seen = bytes[0];
      return {};
    }
    std::byte seen{};

   private:
    std::byte* ring_;
  } sink(memory_->up());
  *memory_->up() = std::byte{1};
  memory_->header().up.head = 1;
  ASSERT_EQ(server_->poll(sink, 16).value_or(0), 1U);
  EXPECT_EQ(sink.seen, std::byte{1});
}

TEST_F(Liar, WithheldWakeUpsOnlyDelayTheEnd) {
  // Broken: a client that never wakes its worker keeps it for ever.
  sockets_[0].reset();
  const auto is_ready = server_->wait(Deadline::max());
  ASSERT_TRUE(is_ready);
  EXPECT_TRUE(*is_ready);
  EXPECT_EQ(poll().code, ErrorCode::kPeerClosed);
}

}  // namespace
}  // namespace sluice::transport::testing
