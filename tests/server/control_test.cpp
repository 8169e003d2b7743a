// What sluicectl says must arrive at the broker as it was said, whoever else is talking.
#include "broker_fixture.h"
#include "server/control/client.h"
#include "server/control/service.h"

#include <grp.h>
#include <sys/stat.h>

namespace sluice::server {
namespace {

class ControlTest : public BrokerFixture {
 protected:
  void start_all() {
    start();
    auto service = control::Service::start(path(), "", *broker_, post());
    ASSERT_TRUE(service.has_value()) << service.error().message;
    service_ = std::move(*service);
  }
  ~ControlTest() override { service_.reset(); }

  [[nodiscard]] std::string path() const { return folder_ + "/control"; }
  [[nodiscard]] control::Post post() {
    return [this](std::function<void()> what) { broker_->post(std::move(what)); };
  }
  [[nodiscard]] std::unique_ptr<control::Client> connect_control() const {
    auto client = control::Client::connect(path());
    EXPECT_TRUE(client.has_value());
    return client ? std::move(*client) : nullptr;
  }

  std::unique_ptr<control::Service> service_;
};

TEST_F(ControlTest, ShowsTheSameAsTheBroker) {
  config_.node = "node-7";
  config_.tenants[0].charges_context = true;
  start_all();
  const Client session = open("good");
  ASSERT_EQ('1', session.data.command('c', 4096));
  ASSERT_EQ('1', session.data.command('m', 8192));
  ASSERT_EQ('o', session.data.command('o', 10'000));
  ASSERT_EQ('1', session.data.command('c', 4096)) << "and what came before was heard";
  const auto client = connect_control();
  EXPECT_EQ(ask([](Broker& b) { return b.tenants(); }), client->tenants().value());
  auto sessions = client->sessions().value();
  auto expected = ask([](Broker& b) { return b.sessions(); });
  ASSERT_EQ(1u, sessions.size());
  sessions[0].age_ms = expected[0].age_ms;  // time passes
  sessions[0].idle_ms = expected[0].idle_ms;
  EXPECT_EQ(expected, sessions);
  auto server = client->server().value();
  server.uptime_ms = 0;
  auto wanted = ask([](Broker& b) { return b.server(); });
  wanted.uptime_ms = 0;
  EXPECT_EQ(wanted, server);
  EXPECT_EQ("node-7", server.node);
}

TEST_F(ControlTest, CarriesEveryFieldOfAChange) {
  start_all();
  const auto client = connect_control();
  config::TenantOverride change;
  change.memory_limit_bytes = 5ull << 40;
  change.max_sessions = 3;
  change.idle_timeout = 10min;
  change.max_duration = 8h;
  const auto changed = client->set_tenant("new", change);
  ASSERT_TRUE(changed.has_value()) << changed.error().message;
  EXPECT_EQ(5ull << 40, changed->tenant.memory_limit_bytes);
  EXPECT_EQ(3u, changed->tenant.max_sessions);
  EXPECT_EQ(600'000u, changed->tenant.idle_timeout_ms);
  EXPECT_EQ(28'800'000u, changed->tenant.max_duration_ms);
  EXPECT_FALSE(changed->tenant.has_token);
  EXPECT_NE("", changed->warning);
  const auto same = client->set_tenant("new", {});
  EXPECT_EQ(changed->tenant, same->tenant) << "what is not given must stay as it is";
  change = {};
  change.idle_timeout = 0ms;
  EXPECT_EQ(0u, client->set_tenant("new", change)->tenant.idle_timeout_ms);
}

TEST_F(ControlTest, MakesAndRevokesTokens) {
  start_all();
  const auto client = connect_control();
  const auto made = client->new_token("good");
  ASSERT_TRUE(made.has_value());
  open(hello_of("good", made->token));
  EXPECT_TRUE(client->revoke_token("good").has_value());
  EXPECT_EQ(wire::RefusalCode::kWrongToken, refusal_of(hello_of("good", made->token)).code);
}

TEST_F(ControlTest, CarriesTheBrokersErrorsWithTheirCodes) {
  start_all();
  const auto client = connect_control();
  EXPECT_EQ(ErrorCode::kNotFound, client->new_token("nobody").error().code);
  EXPECT_EQ(ErrorCode::kInvalidArgument, client->set_tenant("a b", {}).error().code);
  EXPECT_EQ(ErrorCode::kNotFound, client->kill_session(99).error().code);
  EXPECT_EQ(ErrorCode::kUnsupported, client->reload().error().code);
  EXPECT_NE(std::string::npos, client->kill_session(99).error().message.find("session 99"));
}

TEST_F(ControlTest, KillsAndRemoves) {
  start_all();
  const Client first = open("good");
  const Client second = open("other");
  const auto client = connect_control();
  EXPECT_EQ(1u, client->kill_session(first.welcome.session_id).value());
  EXPECT_EQ(wire::EndingCode::kKilled,
            first.life_line.hear_a<wire::Ending>().value_or(wire::Ending{}).code);
  EXPECT_EQ(ErrorCode::kExhausted, client->remove_tenant("other", false).error().code);
  EXPECT_TRUE(client->remove_tenant("other", true).has_value());
  EXPECT_TRUE(second.life_line.hear_a<wire::Ending>().has_value());
}

TEST_F(ControlTest, ServesManyAtOnceAndOutlivesGarbage) {
  start_all();
  const auto address = transport::parse_address("unix:" + path()).value();
  const auto garbage = transport::connect_socket(address, 5s).value();
  ::send(garbage.get(), "GET / HTTP/1.1\r\n\r\n\r\n\r\n\r\n\r\n", 26, MSG_NOSIGNAL);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([this, i] {
      const auto client = connect_control();
      config::TenantOverride change;
      change.max_sessions = 1;
      for (int j = 0; j < 20; ++j)
        EXPECT_TRUE(client->set_tenant("t" + std::to_string(i), change).has_value());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(10u, connect_control()->tenants()->size());
}

TEST_F(ControlTest, AnswersWithAnErrorWhenTheBrokerIsOver) {
  // Broken: sluicectl hangs while the server stops.
  start_all();
  const auto client = connect_control();
  broker_->stop();
  thread_.join();
  EXPECT_FALSE(client->tenants().has_value());
}

TEST_F(ControlTest, KeepsItsSocketPrivateOrForItsGroup) {
  start_all();
  const auto mode = [this] {
    struct stat info {};
    EXPECT_EQ(0, ::stat(path().c_str(), &info));
    return info.st_mode & 0777u;
  };
  EXPECT_EQ(0600u, mode());
  service_.reset();
  EXPECT_NE(0, ::access(path().c_str(), F_OK)) << "the socket is left behind";
  const struct group* own = ::getgrgid(::getgid());
  ASSERT_NE(nullptr, own);
  auto shared = control::Service::start(path(), own->gr_name, *broker_, post());
  ASSERT_TRUE(shared.has_value()) << shared.error().message;
  EXPECT_EQ(0660u, mode());
}

TEST_F(ControlTest, RefusesAGroupThatDoesNotExistAndASocketInUse) {
  start_all();
  EXPECT_EQ(ErrorCode::kExhausted,
            control::Service::start(path(), "", *broker_, post()).error().code);
  EXPECT_EQ(ErrorCode::kInvalidArgument,
            control::Service::start(path() + "2", "no-such-group", *broker_, post()).error().code);
}

}  // namespace
}  // namespace sluice::server
