// A peer's process that dies or falls silent is found over UCX, too.
#include "pairs.h"
#include "ucx_pair.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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
    char port[6] = {};
    ASSERT_EQ(::recv(life_line_.get(), port, 5, MSG_WAITALL), 5);
    auto channel =
        plugin.connect(host, static_cast<std::uint16_t>(std::atoi(port)), {}, life_line_, far());
    ASSERT_TRUE(channel) << channel.error().message;
    channel_ = std::move(*channel);
    ASSERT_EQ(::write(life_line_.get(), "x", 1), 1);
    PatternSink ignored;
    ASSERT_TRUE(receive(*channel_, ignored, 8));
  }
  void TearDown() override {
    ::kill(peer_, SIGKILL);
    ::waitpid(peer_, nullptr, 0);
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
