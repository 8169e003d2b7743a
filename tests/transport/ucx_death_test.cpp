// A peer's process that dies or falls silent is found over UCX, too.
#include "pairs.h"
#include "ucx_pair.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace sluice::transport::testing {
namespace {

/// A channel to a process of its own.
class UcxDeath : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    transport::ucx::Plugin& plugin = ucx_plugin(GetParam());
    const std::string host = ucx_host(GetParam());
    std::array<Fd, 2> ends = make_sockets("unix");
    life_line_ = std::move(ends[0]);
    peers_life_line_ = std::move(ends[1]);
    peer_ = ::fork();
    if (peer_ == 0) {
      ::dup2(peers_life_line_.get(), 0);
      ::execl(SLUICE_UCX_GUEST, "ucx_guest", "--serve", SLUICE_UCX_PLUGIN, host.c_str(), nullptr);
      ::_exit(127);
    }
    const auto port = static_cast<std::uint16_t>(std::stoul(hear(5)));
    ucx::StagingOffer offer;
    offer.address = std::stoull(hear(16), nullptr, 16);
    offer.bytes = ucx::kStagingBytes;
    offer.key = hear(std::stoul(hear(4)));
    std::string no_staging;
    auto channel = plugin.connect(host, port, {}, life_line_, far(), &offer, &no_staging);
    ASSERT_TRUE(channel) << channel.error().message;
    EXPECT_EQ(no_staging, "");
    channel_ = std::move(*channel);
    ASSERT_EQ(::write(life_line_.get(), "x", 1), 1);
    PatternSink ignored;
    ASSERT_TRUE(receive(*channel_, ignored, 8));
  }
  void TearDown() override {
    ::kill(peer_, SIGKILL);
    ::waitpid(peer_, nullptr, 0);
  }
  std::string hear(std::size_t bytes) {
    std::string text(bytes, '0');
    EXPECT_EQ(::recv(life_line_.get(), text.data(), bytes, MSG_WAITALL),
              static_cast<ssize_t>(bytes));
    return text;
  }
  void expect_the_end() {
    PatternSink ignored;
    EXPECT_EQ(receive_to_end(*channel_, ignored).code, ErrorCode::kPeerClosed);
    std::vector<std::byte> bytes(2 * 1024 * 1024);
    const Status sent = channel_->write_through(bytes);
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, ErrorCode::kPeerClosed);
  }

  pid_t peer_ = -1;
  Fd life_line_, peers_life_line_;
  std::unique_ptr<Channel> channel_;
};

TEST_P(UcxDeath, OfThePeersProcessIsToldByUcx) {
  // Broken: a program waits for ever for a worker that was killed. The life line cannot tell here:
  // this process holds its other end, too.
  ::kill(peer_, SIGKILL);
  expect_the_end();
}

TEST_P(UcxDeath, EndsCopiesThroughItsMemory) {
  // Broken: a program that copies hangs when its worker was killed.
  RemoteStaging* const remote = channel_->remote_staging();
  ASSERT_NE(remote, nullptr);
  ::kill(peer_, SIGKILL);
  // Until the news has come, copies may still seem to work.
  for (const Deadline deadline = far();;) {
    const auto put = remote->start_put(0, 4096);
    const Status done = put ? remote->finish(*put) : Status(fail(put.error()));
    if (!done) {
      EXPECT_EQ(done.error().code, ErrorCode::kPeerClosed) << done.error().message;
      return;
    }
    ASSERT_LT(Clock::now(), deadline);
  }
}

TEST_P(UcxDeath, IsToldByTheLifeLineIfUcxSaysNothing) {
  // Broken: UCX's own notice comes after minutes, or never.
  ::kill(peer_, SIGSTOP);
  ::shutdown(peers_life_line_.get(), SHUT_RDWR);
  expect_the_end();
}

INSTANTIATE_TEST_SUITE_P(Ucx, UcxDeath, ::testing::ValuesIn(ucx_kinds()),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace sluice::transport::testing
