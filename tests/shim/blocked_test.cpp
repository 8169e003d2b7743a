// The pipeline over a channel that takes nothing: nobody but the service thread would notice that
// the session is over, and it is the one that sends.
#include "protocol/session.h"
#include "shim/pipeline.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;

/// Takes records, and never gets rid of them.
class StuckChannel final : public transport::Channel {
 public:
  std::span<std::byte> reserve(std::size_t bytes) override {
    return std::span(batch_).first(bytes);
  }
  void commit(std::size_t bytes, transport::FlushHint) override { used_ += bytes; }
  Status flush() override {
    while (!is_closed_) {
      while_blocked();
      std::this_thread::sleep_for(1ms);
    }
    return fail(ErrorCode::kPeerClosed, "closed");
  }
  [[nodiscard]] std::size_t unflushed_bytes() const override { return used_; }
  Status write_through(std::span<const std::byte>) override { return flush(); }
  Result<std::size_t> poll(transport::RecvSink&, std::size_t) override { return 0; }
  Result<bool> wait(transport::Deadline) override { return is_closed_.load(); }
  [[nodiscard]] int wait_fd() const override { return -1; }
  [[nodiscard]] transport::Caps caps() const override {
    return {.reserve_bytes_max = batch_.size(),
            .same_host = false,
            .encrypted = false,
            .name = "stuck"};
  }
  void close() noexcept override { is_closed_ = true; }
  void abandon_in_child() noexcept override {}

 private:
  std::vector<std::byte> batch_{64 * 1024};
  std::size_t used_ = 0;
  std::atomic<bool> is_closed_{false};
};

class NoPushes final : public shim::PushHandler {
 public:
  Status on_push(const wire::RecordHeader&, std::span<const std::byte>) override { return {}; }
};

TEST(BlockedPipeline, NoticesTheEndOfTheSessionAlthoughItsOwnThreadSends) {
  // Broken: the service thread hands over what nobody flushed, the network is away, and the program
  // hangs for ever instead of being told that the server is gone.
  int ends[2];
  ASSERT_EQ(0, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
  Fd server(ends[1]);
  NoPushes pushes;
  shim::Optimisations optimisations;
  optimisations.idle_flush = false;  // else the program's thread sends it
  shim::Pipeline pipeline(std::make_unique<StuckChannel>(),
                          transport::make_socket_stream(Fd(ends[0])), false, pushes, optimisations,
                          {});
  const std::array<std::byte, 8> fixed{};
  pipeline.expect();  // starts the service thread
  ASSERT_EQ(
      CUDA_SUCCESS,
      pipeline.post({.opcode = wire::goodbye::kOpcode, .context = 0, .fixed = fixed, .blobs = {}}));
  server = Fd();
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!pipeline.is_lost() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(pipeline.is_lost());
}

TEST(BlockedPipeline, NoticesTheEndOfTheSessionAlthoughNobodyExpectedAnything) {
  // Broken: the first record after a pause is sent by the program's thread while the service thread
  // sleeps; the network is away, nobody looks at the life line, and the program hangs for ever.
  int ends[2];
  ASSERT_EQ(0, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
  Fd server(ends[1]);
  NoPushes pushes;
  shim::Pipeline pipeline(std::make_unique<StuckChannel>(),
                          transport::make_socket_stream(Fd(ends[0])), false, pushes, {}, {});
  const std::array<std::byte, 8> fixed{};
  std::atomic<bool> has_returned{false};
  std::thread program([&] {
    static_cast<void>(pipeline.post(
        {.opcode = wire::goodbye::kOpcode, .context = 0, .fixed = fixed, .blobs = {}}));
    has_returned = true;
  });
  server = Fd();
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!has_returned && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(has_returned);
  pipeline.lose({ErrorCode::kPeerClosed, "the test is over"});
  program.join();
}

}  // namespace
}  // namespace sluice::test
