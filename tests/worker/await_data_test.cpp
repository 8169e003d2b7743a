// The worker waits for its client's data connection, whoever else attaches to the session.
#include "server/worker/await_data.h"

#include "tests/tls/ends.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <vector>

namespace sluice::server {
namespace {

using namespace std::chrono_literals;
using test::far;
using test::secret_of;
namespace tls = transport::tls;

class AwaitData : public ::testing::Test {
 protected:
  using Outcome = Result<std::unique_ptr<transport::Channel>>;

  AwaitData() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    broker_.reset(ends[0]);
    worker_.reset(ends[1]);
    start_.session_id = 7;
    start_.session_key = secret_of("7", 0x42).key;
    outcome_ = std::async(std::launch::async, [this] {
      return await_data_channel(worker_.get(), start_, resumption_);
    });
  }
  ~AwaitData() override {
    broker_.reset();  // whoever still waits is released
  }
  /// The client's end of a connection that the worker was handed.
  Fd attach(bool is_encrypted = true, bool is_resumable = false) {
    auto sockets = test::tcp_pair();
    EXPECT_TRUE(link::send_message(
        broker_.get(), link::AttachData{.is_encrypted = is_encrypted, .is_resumable = is_resumable},
        sockets[1].get()));
    return std::move(sockets[0]);
  }
  static test::StreamResult prove(Fd socket, const tls::SessionSecret& secret) {
    return tls::linked_library().connect_session(std::move(socket), secret, far());
  }
  /// The worker's channel is the one whose client end is `client`.
  void expect_the_owner(const test::StreamResult& client, bool is_resumable = false) {
    ASSERT_TRUE(client) << client.error().message;
    ASSERT_EQ(outcome_.wait_for(60s), std::future_status::ready);
    const Outcome channel = outcome_.get();
    ASSERT_TRUE(channel) << channel.error().message;
    EXPECT_TRUE((*channel)->caps().encrypted);
    ASSERT_TRUE(test::send_text(**client, "x"));
    EXPECT_TRUE((*channel)->wait(far()).value_or(false));
    const auto told = link::receive_message(broker_.get());
    ASSERT_TRUE(told);
    const auto* ready = std::get_if<link::DataReady>(&told->message);
    ASSERT_NE(ready, nullptr);
    EXPECT_EQ(ready->is_resumable, is_resumable);
  }

  Fd broker_, worker_;
  link::Start start_;
  Resumption resumption_;
  std::future<Outcome> outcome_;
};

TEST_F(AwaitData, TheOwnerProvesTheKeyAndTheBrokerIsTold) {
  expect_the_owner(prove(attach(), secret_of("7", 0x42)));
}

TEST_F(AwaitData, WhetherItIsResumableIsWhatTheOwnersConnectionSaid) {
  // Broken: a stranger decides whether the session survives a cut.
  const Fd stranger = attach(true, false);
  expect_the_owner(prove(attach(true, true), secret_of("7", 0x42)), true);
}

TEST_F(AwaitData, AStrangerWhoKnowsTheSessionsNumberIsClosedAndTheOwnerServed) {
  EXPECT_FALSE(prove(attach(), secret_of("7", 0x41)));
  Fd garbage = attach();
  ASSERT_EQ(::send(garbage.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
  expect_the_owner(prove(attach(), secret_of("7", 0x42)));
}

TEST_F(AwaitData, StrangersWhoSayNothingDoNotDelayTheOwner) {
  std::vector<Fd> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(attach());
  expect_the_owner(prove(attach(), secret_of("7", 0x42)));
}

TEST_F(AwaitData, BeyondALimitTheOldestStrangerGoes) {
  std::vector<Fd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(attach());
  std::byte byte{};
  ASSERT_TRUE(transport::wait_on(silent[0].get(), transport::ByteStream::For::kReceive, far()));
  EXPECT_LE(::recv(silent[0].get(), &byte, 1, 0), 0);
  expect_the_owner(prove(attach(), secret_of("7", 0x42)));
}

TEST_F(AwaitData, AStrangerWhoSaysNothingIsClosedInTheEnd) {
  const Fd silent = attach();
  std::byte byte{};
  ASSERT_TRUE(transport::wait_on(silent.get(), transport::ByteStream::For::kReceive, far()));
  EXPECT_LE(::recv(silent.get(), &byte, 1, 0), 0);
  expect_the_owner(prove(attach(), secret_of("7", 0x42)));
}

TEST_F(AwaitData, APlainConnectionIsTakenAsTheBrokerVouchesForIt) {
  const Fd client = attach(false);
  ASSERT_EQ(outcome_.wait_for(60s), std::future_status::ready);
  const Outcome channel = outcome_.get();
  ASSERT_TRUE(channel);
  EXPECT_FALSE((*channel)->caps().encrypted);
}

TEST_F(AwaitData, AStopOrTheEndOfTheBrokerEndsTheWait) {
  const Fd silent = attach();
  ASSERT_TRUE(link::send_message(broker_.get(), link::Stop{}));
  ASSERT_EQ(outcome_.wait_for(60s), std::future_status::ready);
  EXPECT_FALSE(outcome_.get());
}

}  // namespace
}  // namespace sluice::server
