// The worker waits for its client's data connection, whoever else attaches to the session.
#include "server/worker/await_data.h"

#include "protocol/session_secret.h"
#include "tests/tls/ends.h"
#include "transport/stream/stream_io.h"

#include <fcntl.h>
#include <poll.h>
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
      return await_data_channel(worker_.get(), start_, resumption_, 20s);
    });
  }
  ~AwaitData() override {
    broker_.reset();  // whoever still waits is released
  }
  /// The client's end of a connection that the worker was handed.
  Fd attach(bool is_encrypted = true, std::uint8_t lane = 0, std::uint8_t lane_count = 0,
            bool is_resumable = false) {
    auto sockets = test::tcp_pair();
    link::AttachData data;
    data.is_encrypted = is_encrypted;
    data.is_resumable = is_resumable;
    data.lane = lane;
    data.lane_count = lane_count;
    EXPECT_TRUE(link::send_message(broker_.get(), data, sockets[1].get()));
    return std::move(sockets[0]);
  }
  test::StreamResult prove_lane(std::uint8_t lane, std::uint8_t lane_count) {
    return prove(attach(true, lane, lane_count),
                 secret_of(wire::secret_identity(7, lane, lane_count), 0x42));
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
  const Fd stranger = attach();
  expect_the_owner(prove(attach(true, 0, 0, true), secret_of("7", 0x42)), true);
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

TEST_F(AwaitData, LanesProveTheKeyAndTheirPlaceInAnyOrder) {
  const auto second = prove_lane(2, 2), first = prove_lane(1, 2);
  ASSERT_TRUE(second && first);
  pollfd told{broker_.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&told, 1, 0), 0) << "one is missing";
  const auto records = prove_lane(0, 2);
  ASSERT_TRUE(records);
  const Outcome channel = outcome_.get();
  ASSERT_TRUE(channel) << channel.error().message;
  ASSERT_EQ((*channel)->lanes().size(), 2U);
  ASSERT_TRUE(test::send_text(**first, "1"));
  ASSERT_TRUE(test::send_text(**second, "2"));
  for (std::size_t i = 0; i < 2; ++i) {
    std::byte byte{};
    ASSERT_TRUE(transport::receive_all(*(*channel)->lanes()[i], {&byte, 1}));
    EXPECT_EQ(byte, static_cast<std::byte>('1' + i));
  }
  const auto ready = link::receive_message(broker_.get());
  EXPECT_TRUE(ready && std::holds_alternative<link::DataReady>(ready->message));
}

TEST_F(AwaitData, ALaneThatSomebodyOnTheWayRenamedIsNotBelieved) {
  // Broken: whoever can change the frames in the clear swaps the data of two copies.
  EXPECT_FALSE(prove(attach(true, 2, 2), secret_of(wire::secret_identity(7, 1, 2), 0x42)));
  EXPECT_FALSE(prove(attach(true, 0, 0), secret_of(wire::secret_identity(7, 0, 2), 0x42)));
  expect_the_owner(prove(attach(), secret_of("7", 0x42)));
}

TEST_F(AwaitData, PlainLanesComeInAnyOrderToo) {
  const Fd second = attach(false, 2, 2), first = attach(false, 1, 2), records = attach(false, 0, 2);
  const Outcome channel = outcome_.get();
  ASSERT_TRUE(channel) << channel.error().message;
  ASSERT_EQ((*channel)->lanes().size(), 2U);
  ASSERT_EQ(::send(second.get(), "2", 1, 0), 1);
  std::byte byte{};
  ASSERT_TRUE(transport::receive_all(*(*channel)->lanes()[1], {&byte, 1}));
  EXPECT_EQ(byte, std::byte{'2'});
}

TEST_F(AwaitData, LanesThatCannotBeEndTheSession) {
  const Fd records = attach(false, 0, 1), other = attach(false, 2, 1);
  const Outcome channel = outcome_.get();
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code, ErrorCode::kProtocol);
}

TEST_F(AwaitData, MoreLanesThanThereCanBeEndTheSession) {
  const Fd records = attach(false, 0, wire::kLaneCountMax + 1);
  EXPECT_FALSE(outcome_.get());
}

TEST(AwaitLanes, ThoseThatAreAnnouncedAndDoNotComeEndTheSession) {
  // Broken: a client that dies while it opens its lanes leaves a worker waiting for ever.
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const Fd broker(ends[0]), worker(ends[1]);
  auto sockets = test::tcp_pair();
  link::AttachData data;
  data.lane_count = 1;
  ASSERT_TRUE(link::send_message(broker.get(), data, sockets[1].get()));
  Resumption resumption;
  const auto channel = await_data_channel(worker.get(), link::Start{}, resumption, 1ms);
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code, ErrorCode::kTimeout);
}

TEST(AwaitWithUring, AConnectionThatCanBeReplacedIsReadWithoutIt) {
  // Broken: bytes that the ring has taken already are not counted when the connection is replaced.
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const Fd broker(ends[0]), worker(ends[1]);
  auto sockets = test::tcp_pair();
  link::AttachData data;
  data.is_resumable = true;
  ASSERT_TRUE(link::send_message(broker.get(), data, sockets[1].get()));
  link::Start start;
  start.uses_io_uring = true;
  Resumption resumption;
  const auto channel = await_data_channel(worker.get(), start, resumption);
  ASSERT_TRUE(channel) << channel.error().message;
  int type = 0;
  socklen_t bytes = sizeof type;
  EXPECT_EQ(::getsockopt((*channel)->wait_fd(), SOL_SOCKET, SO_TYPE, &type, &bytes), 0)
      << "the descriptor is a ring's";
}

TEST_F(AwaitData, AStopOrTheEndOfTheBrokerEndsTheWait) {
  const Fd silent = attach();
  ASSERT_TRUE(link::send_message(broker_.get(), link::Stop{}));
  ASSERT_EQ(outcome_.wait_for(60s), std::future_status::ready);
  EXPECT_FALSE(outcome_.get());
}

}  // namespace
}  // namespace sluice::server
