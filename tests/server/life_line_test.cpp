// The end of a session: whoever is gone leaves nothing behind, whoever is only stopped keeps
// everything, and whoever is thrown out learns why.
#include "broker_fixture.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nlohmann/json.hpp>

namespace sluice::server {
namespace {

class LifeLineTest : public BrokerFixture {
 protected:
  /// The Ending that arrives, when the client asked for such frames.
  static wire::Ending ending_of(const Client& client) {
    const auto ending = client.life_line.hear_a<wire::Ending>();
    EXPECT_TRUE(ending.has_value());
    return ending.value_or(wire::Ending{});
  }
  /// Once its sessions are open: a slow machine must not spend the time on that.
  void limit_good(std::chrono::milliseconds idle, std::chrono::milliseconds duration) {
    config::TenantOverride change;
    change.idle_timeout = idle;
    change.max_duration = duration;
    EXPECT_TRUE(ask([&](Broker& b) { return b.set_tenant("good", change).has_value(); }));
  }
  void listen_on_tcp() {
    config_.listen.push_back(transport::parse_address("127.0.0.1:0").value());
  }
};

TEST_F(LifeLineTest, AnswersAPingAlsoWhileNothingElseHappens) {
  config_.heartbeat = 250ms;
  start();
  const Client client = open("good");
  EXPECT_EQ(250u, client.welcome.heartbeat_ms);
  EXPECT_EQ(5000u, client.welcome.heartbeat_timeout_ms);
  EXPECT_NE(0u, client.welcome.feature_bits & wire::kFeatureHeartbeat);
  for (const std::uint64_t number : {1ull, 2ull, 1ull << 40}) {
    client.life_line.say(wire::Ping{number});
    const auto pong = client.life_line.hear_a<wire::Pong>();
    ASSERT_TRUE(pong.has_value());
    EXPECT_EQ(number, pong->number);
  }
}

TEST_F(LifeLineTest, TellsForHowLongTheWorkerHasBeenSilent) {
  // Broken: a client waits for ever for a worker that is stopped.
  start();
  const Client client = open("good");  // a fake worker says nothing by itself
  const auto silence = [&] {
    client.life_line.say(wire::Ping{1});
    return client.life_line.hear_a<wire::Pong>().value().worker_silent_ms;
  };
  EXPECT_TRUE(eventually([&] { return silence() > 100; }));
  EXPECT_EQ('r', client.data.command('r'));
  EXPECT_TRUE(eventually([&] { return silence() < 100; }));
}

TEST_F(LifeLineTest, EndsASessionThatAsksAndDoesNotReadTheAnswers) {
  // Broken: half an answer is on the life line, and an Ending behind it is not understood.
  start();
  const Client flood = open("good");
  const Client other = open("other");
  const auto frame = wire::encode_frame(wire::Ping{1});
  while (::send(flood.life_line.fd.get(), frame.data(), frame.size(), MSG_NOSIGNAL) > 0) {
  }
  EXPECT_TRUE(eventually([&] { return session_count() == 1; }));
  EXPECT_EQ('r', other.data.command('r'));
}

TEST_F(LifeLineTest, EndsASessionWhoseLifeLineCarriesGarbage) {
  start();
  const Client client = open("good");
  ::send(client.life_line.fd.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
  EXPECT_TRUE(client.life_line.is_closed());
  EXPECT_TRUE(eventually([&] { return session_count() == 0; }));
}

TEST_F(LifeLineTest, EndsASessionWhoseClientIsResetOrHangsUp) {
  listen_on_tcp();
  start();
  config_.listen[0] = transport::parse_address(broker_->addresses().at(1)).value();
  for (const bool is_reset : {true, false}) {
    Client client = open("good");
    if (is_reset) {
      const linger now{1, 0};  // a close that answers with RST
      ::setsockopt(client.life_line.fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    client.life_line.fd.reset();
    EXPECT_TRUE(eventually([&] { return session_count() == 0; })) << "is_reset=" << is_reset;
  }
}

TEST_F(LifeLineTest, GivesTcpTheGraceTimeOnTheLifeLineAndNoOpinionOnTheDataConnection) {
  // Broken: a client with data waiting for it, stopped by a debugger, is thrown out.
  config_.grace = 40s;
  listen_on_tcp();
  start();
  config_.listen[0] = transport::parse_address(broker_->addresses().at(1)).value();
  const Client client = open("good");
  // The broker's ends are the sockets of this process whose peers are ours.
  const auto option_of = [](const Peer& peer, int level, int name) {
    sockaddr_in ours{}, theirs{};
    socklen_t size = sizeof ours;
    ::getsockname(peer.fd.get(), reinterpret_cast<sockaddr*>(&ours), &size);
    for (int fd = 3; fd < 1024; ++fd) {
      size = sizeof theirs;
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&theirs), &size) != 0 ||
          theirs.sin_family != AF_INET || theirs.sin_port != ours.sin_port)
        continue;
      int value = -1;
      size = sizeof value;
      ::getsockopt(fd, level, name, &value, &size);
      return value;
    }
    return -2;  // not in this process: the worker has it
  };
  EXPECT_EQ(40'000, option_of(client.life_line, IPPROTO_TCP, TCP_USER_TIMEOUT));
  EXPECT_EQ(1, option_of(client.life_line, SOL_SOCKET, SO_KEEPALIVE));
  EXPECT_EQ(1u, session_count());  // the broker is done with the data connection
  EXPECT_EQ(-2, option_of(client.data, SOL_SOCKET, SO_KEEPALIVE)) << "the broker kept it";
}

TEST_F(LifeLineTest, EndsAnIdleSessionAndSaysWhy) {
  start();
  const Client idle = open("good");
  const Client other = open("other");
  limit_good(60ms, 0s);
  const wire::Ending ending = ending_of(idle);
  EXPECT_EQ(wire::EndingCode::kIdle, ending.code);
  EXPECT_EQ(0u, ending.in_ms);
  EXPECT_NE(std::string::npos, ending.message.find("idle_timeout of tenant \"good\""))
      << ending.message;
  EXPECT_TRUE(idle.life_line.is_closed());
  EXPECT_EQ('r', other.data.command('r')) << "another tenant's session ended too";
}

TEST_F(LifeLineTest, DoesNotTakeASessionThatCallsOrWaitsForIdle) {
  start();
  const Client waiting = open("good");
  ASSERT_EQ('p', waiting.data.command('p'));  // a call that takes long is still a call
  const Client busy = open("good");
  const Client idle = open("good");  // the youngest, and yet the most idle
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ('r', busy.data.command('r'));
    const auto sessions = ask([](Broker& b) { return b.sessions(); });  // in the order of opening
    return sessions[0].idle_ms < sessions[2].idle_ms && sessions[1].idle_ms < sessions[2].idle_ms;
  }));
}

TEST_F(LifeLineTest, EndsASessionThatHasLastedForItsTime) {
  start();
  const Client client = open("good");
  limit_good(0s, 80ms);
  const wire::Ending ending = ending_of(client);
  EXPECT_EQ(wire::EndingCode::kDuration, ending.code);
  EXPECT_NE(std::string::npos, ending.message.find("max_duration")) << ending.message;
  EXPECT_TRUE(client.life_line.is_closed());
}

TEST_F(LifeLineTest, SendsNoFramesToAClientThatDoesNotKnowThem) {
  start();
  wire::Hello hello = hello_of("good");
  hello.feature_bits = 0;
  const Client client = open(hello);
  limit_good(0s, 50ms);
  EXPECT_TRUE(client.life_line.is_closed());
}

TEST_F(LifeLineTest, ReportsTheFinalFiguresOfASessionThatItEnds) {
  times_.last_report = kPatience;
  start();
  const Client client = open("good");
  ask([&](Broker& b) { return b.kill_session(client.welcome.session_id).has_value(); });
  EXPECT_EQ(wire::EndingCode::kKilled, ending_of(client).code);
  EXPECT_TRUE(eventually([&] { return !stats_text().empty(); }));
  EXPECT_EQ(4711u, nlohmann::json::parse(stats_text()).at("calls"));
}

TEST_F(LifeLineTest, StopsWithTheFinalFiguresOfEverySession) {
  times_.last_report = kPatience;
  start();
  const Client a = open("good");
  const Client b = open("other");
  stop();
  EXPECT_EQ(wire::EndingCode::kServer, ending_of(a).code);
  EXPECT_EQ(wire::EndingCode::kServer, ending_of(b).code);
  std::istringstream lines(stats_text());
  std::string line;
  int count = 0;
  for (; std::getline(lines, line); ++count)
    EXPECT_EQ(4711u, nlohmann::json::parse(line).at("calls")) << line;
  EXPECT_EQ(2, count);
}

TEST_F(LifeLineTest, DoesNotWaitLongForAWorkerThatWillNotEnd) {
  add_tenant("endless");
  times_.last_report = 30ms;
  start();
  const Client client = open("endless");
  stop();
  EXPECT_NE("", stats_text());
}

TEST_F(LifeLineTest, LetsSessionsFinishWhileItDrains) {
  config_.drain_timeout = kPatience;
  start();
  Client client = open("good");
  std::thread stopping([this] { stop(); });
  const wire::Ending notice = ending_of(client);
  EXPECT_EQ(wire::EndingCode::kServer, notice.code);
  EXPECT_EQ(static_cast<std::uint32_t>(std::chrono::milliseconds(kPatience).count()), notice.in_ms);
  EXPECT_EQ('1', client.data.command('c', 4096)) << "a session that may finish must be able to";
  EXPECT_FALSE(transport::connect_socket(config_.listen[0], 1s).has_value())
      << "new clients are still accepted";
  client = {};
  stopping.join();
  EXPECT_NE("", stats_text());
}

TEST_F(LifeLineTest, EndsSessionsThatOutlastTheDraining) {
  config_.drain_timeout = 50ms;
  start();
  const Client client = open("good");
  stop();
  EXPECT_NE(0u, ending_of(client).in_ms);
  EXPECT_EQ(0u, ending_of(client).in_ms);
  EXPECT_TRUE(client.life_line.is_closed());
}

}  // namespace
}  // namespace sluice::server
