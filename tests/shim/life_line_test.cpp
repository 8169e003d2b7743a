// A lost server is an error and one line in the log, never a program that waits for ever.
#include "shim/life_line.h"

#include "protocol/frame_io.h"
#include "tests/shim/fake_server.h"

#include <sys/socket.h>

#include <cstdlib>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;
using shim::LifeLine;

class LifeLineTest : public ::testing::Test {
 protected:
  LifeLineTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(0, ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    client_ = Fd(ends[0]);
    server_ = Fd(ends[1]);
  }
  void tell(const wire::Frame& frame) {
    ASSERT_TRUE(wire::write_frame(server_.get(), frame).has_value());
  }
  std::optional<wire::Ping> ping() {
    const auto frame = wire::read_frame(server_.get(), std::chrono::steady_clock::now() + 5s);
    if (!frame || !std::holds_alternative<wire::Ping>(*frame)) return std::nullopt;
    return std::get<wire::Ping>(*frame);
  }

  Fd client_, server_;
  LifeLine::Time now_ = LifeLine::Time(1h);
};

TEST_F(LifeLineTest, AServerThatAnswersIsAlive) {
  LifeLine line(transport::make_socket_stream(std::move(client_)), {100ms, 500ms});
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(line.watch(now_));
    const auto asked = ping();
    ASSERT_TRUE(asked.has_value());
    tell(wire::Pong{asked->number, 10});
    now_ += 100ms;
  }
}

TEST_F(LifeLineTest, SilenceBeyondTheTimeoutIsTheEnd) {
  LifeLine line(transport::make_socket_stream(std::move(client_)), {100ms, 500ms});
  EXPECT_FALSE(line.watch(now_));
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(line.watch(now_ += 100ms));
  const auto over = line.watch(now_ += 100ms);
  ASSERT_TRUE(over.has_value());
  EXPECT_NE(std::string::npos, over->message.find("silent"));
}

TEST_F(LifeLineTest, ATimeInWhichNobodyLookedProvesNothing) {
  LifeLine line(transport::make_socket_stream(std::move(client_)), {100ms, 500ms});
  EXPECT_FALSE(line.watch(now_));
  EXPECT_FALSE(line.watch(now_ += 1h));
  EXPECT_FALSE(line.watch(now_ += 400ms));
}

TEST_F(LifeLineTest, ATimeInWhichThisProcessWasStoppedProvesNothing) {
  LifeLine line(transport::make_socket_stream(std::move(client_)), {100ms, 300ms});
  EXPECT_FALSE(line.watch(now_));
  tell(wire::Pong{1, 10});
  EXPECT_FALSE(line.watch(now_ += 30ms));
  EXPECT_FALSE(line.watch(now_ += 800ms)) << "nothing was asked, nothing is owed";
  EXPECT_FALSE(line.watch(now_ += 290ms));
  EXPECT_TRUE(line.watch(now_ += 30ms).has_value()) << "now it is";
}

TEST_F(LifeLineTest, AnAnswerFromBeforeARestSaysNothingOfTheWorkerNow) {
  LifeLine line(transport::make_socket_stream(std::move(client_)), {100ms, 3000ms});
  EXPECT_FALSE(line.watch(now_));
  tell(wire::Pong{1, 60'000});
  EXPECT_FALSE(line.watch(now_ += 1h));
  tell(wire::Pong{2, 60'000});
  EXPECT_TRUE(line.watch(now_ += 100ms).has_value());
}

TEST_F(LifeLineTest, ALostSessionIsGivenUpAtOnce) {
  LifeLine line(transport::make_socket_stream(std::move(client_)));
  line.give_up();
  char byte = 0;
  EXPECT_EQ(0, ::recv(server_.get(), &byte, 1, 0)) << "the server need not wait for the process";
}

TEST_F(LifeLineTest, AStoppedWorkerIsTheEnd) {
  LifeLine line(transport::make_socket_stream(std::move(client_)), {100ms, 500ms});
  tell(wire::Pong{1, 60'000});
  EXPECT_TRUE(line.watch(now_).has_value());
}

TEST_F(LifeLineTest, TheServersReasonIsPassedOn) {
  LifeLine line(transport::make_socket_stream(std::move(client_)));
  tell(wire::Ending{wire::EndingCode::kKilled, "notice only", 5000});
  EXPECT_FALSE(line.watch(now_));
  tell(wire::Ending{wire::EndingCode::kKilled, "killed by an administrator", 0});
  const auto over = line.watch(now_ += 1s);
  ASSERT_TRUE(over.has_value());
  EXPECT_EQ("killed by an administrator", over->message);
}

TEST_F(LifeLineTest, TheServersReasonIsPassedOnAlsoIfItIsGoneByNow) {
  // Broken: a killed program is told that the server closed its life line, and not why.
  LifeLine line(transport::make_socket_stream(std::move(client_)));
  tell(wire::Ending{wire::EndingCode::kKilled, "killed by an administrator", 0});
  server_ = Fd();
  const auto over = line.watch(now_);
  ASSERT_TRUE(over.has_value());
  EXPECT_EQ("killed by an administrator", over->message);
}

TEST_F(LifeLineTest, TheServersReasonIsWaitedForWhereTheWorkerIsGoneFirst) {
  // Broken: a program whose session was ended is told that a channel is closed, and not why.
  LifeLine line(transport::make_socket_stream(std::move(client_)));
  ASSERT_FALSE(line.watch(now_)) << "whoever watches looks again only after a while";
  std::thread server([this] {
    std::this_thread::sleep_for(20ms);  // the later, the harder
    tell(wire::Ending{wire::EndingCode::kKilled, "killed by an administrator", 0});
  });
  const auto word = line.last_word(10s);
  server.join();
  ASSERT_TRUE(word.has_value());
  EXPECT_EQ("killed by an administrator", word->message);
}

TEST_F(LifeLineTest, NothingIsWaitedForWhereTheServerIsGoneToo) {
  LifeLine line(transport::make_socket_stream(std::move(client_)));
  server_ = Fd();
  const auto before = std::chrono::steady_clock::now();
  EXPECT_FALSE(line.last_word(60s).has_value());
  EXPECT_LT(std::chrono::steady_clock::now() - before, 30s);
}

TEST_F(LifeLineTest, ItsEndIsTheSessions) {
  LifeLine line(transport::make_socket_stream(std::move(client_)));
  EXPECT_FALSE(line.watch(now_));
  server_ = Fd();
  EXPECT_TRUE(line.watch(now_ += 1s).has_value());
}

TEST_F(LifeLineTest, APendingCallReturnsWhenTheServerFallsSilent) {
  ::setenv("SLUICE_HEARTBEAT_MS", "20", 1);
  ::setenv("SLUICE_HEARTBEAT_TIMEOUT_MS", "100", 1);
  FakeServer server([](FakeServer&, const Received& record) {
    return record.header.opcode == static_cast<std::uint16_t>(wire::Opcode::cuCtxSynchronize);
  });
  auto connection = server.connection(std::move(client_));
  connection.welcome.feature_bits = wire::kFeatureHeartbeat;
  shim::set_connector_for_test([&]() -> Result<shim::Connection> { return std::move(connection); });
  CUcontext context = nullptr;
  EXPECT_EQ(CUDA_SUCCESS, cuInit(0));
  EXPECT_EQ(CUDA_SUCCESS, cuDevicePrimaryCtxRetain(&context, 0));
  EXPECT_EQ(CUDA_SUCCESS, cuCtxSetCurrent(context));
  EXPECT_EQ(shim::kSessionLost, cuCtxSynchronize());
  EXPECT_EQ(shim::kSessionLost, cuCtxSynchronize()) << "for good";
  shim::reset_for_test();
  shim::set_connector_for_test({});
  ::unsetenv("SLUICE_HEARTBEAT_MS");
  ::unsetenv("SLUICE_HEARTBEAT_TIMEOUT_MS");
}

}  // namespace
}  // namespace sluice::test
