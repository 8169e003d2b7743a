// What an administrator changes while the server runs: it must take effect, last, and leave
// everybody else alone.
#include "broker_fixture.h"

namespace sluice::server {
namespace {

using Code = wire::RefusalCode;

class AdministrationTest : public BrokerFixture {
 protected:
  void keep_state() { config_.state_dir = folder_ + "/state"; }
  void restart() {
    stop();
    start();
  }
  Result<control::Changed> set(const std::string& tenant, const config::TenantOverride& change) {
    return ask([&](Broker& b) { return b.set_tenant(tenant, change); });
  }
  [[nodiscard]] control::TenantInfo tenant(const std::string& name) {
    for (const auto& one : ask([](Broker& b) { return b.tenants(); }))
      if (one.name == name) return one;
    return {};
  }
};

TEST_F(AdministrationTest, ATenantMadeAtRunTimeIsLetInWithItsTokenAlsoAfterARestart) {
  keep_state();
  start();
  config::TenantOverride change;
  change.memory_limit_bytes = 8192;
  ASSERT_TRUE(set("new", change).has_value());
  EXPECT_EQ(Code::kWrongToken, refusal_of(hello_of("new", "")).code) << "no token, no entry";
  const auto made = ask([](Broker& b) { return b.new_token("new"); });
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(64u, made->token.size());
  EXPECT_EQ("", made->warning);
  EXPECT_EQ(8192u, open(hello_of("new", made->token)).welcome.devices.at(0).total_bytes);
  restart();
  EXPECT_EQ(8192u, open(hello_of("new", made->token)).welcome.devices.at(0).total_bytes);
}

TEST_F(AdministrationTest, TheStateFileHoldsNoToken) {
  keep_state();
  start();
  ASSERT_TRUE(set("new", {}).has_value());
  const auto made = ask([](Broker& b) { return b.new_token("new"); });
  stop();  // so that everything is in one file
  std::ifstream file(config_.state_dir + "/sluiced.db");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(std::string::npos, text.find(made->token));
  EXPECT_NE(std::string::npos, text.find(config::hash_text(config::hash_token(made->token))));
}

TEST_F(AdministrationTest, AChangeThatCannotBeSavedIsNotMade) {
  // Broken: a limit holds until the next restart only, and nobody was told.
  keep_state();
  start();
  std::filesystem::remove_all(config_.state_dir);
  config::TenantOverride change;
  change.max_sessions = 7;
  EXPECT_FALSE(set("good", change).has_value());
  EXPECT_FALSE(ask([](Broker& b) { return b.revoke_token("good"); }).has_value());
  EXPECT_EQ(64u, tenant("good").max_sessions);
  open("good");
}

TEST_F(AdministrationTest, ADamagedStateFileStopsTheServerFromStarting) {
  // Broken: a removed tenant is let in again.
  keep_state();
  std::filesystem::create_directories(config_.state_dir);
  std::ofstream(config_.state_dir + "/sluiced.db") << std::string(4096, 'x');
  BrokerOptions options;
  options.config = config_;
  options.worker_executable = worker_;
  Broker broker(std::move(options));
  EXPECT_FALSE(broker.open().has_value());
}

TEST_F(AdministrationTest, LeavesTheModeOfAStateFolderThatWasThereAlone) {
  keep_state();
  std::filesystem::create_directories(config_.state_dir);
  std::filesystem::permissions(config_.state_dir, std::filesystem::perms(0750));
  start();
  EXPECT_EQ(std::filesystem::perms(0750), std::filesystem::status(config_.state_dir).permissions());
}

TEST_F(AdministrationTest, WithoutAStateFileAChangeSaysThatItWillNotLast) {
  start();
  const auto changed = set("new", {});
  ASSERT_TRUE(changed.has_value());
  EXPECT_NE(std::string::npos, changed->warning.find("state_dir"));
}

TEST_F(AdministrationTest, UsageIsKeptOverARestart) {
  keep_state();
  start();
  double held = 0;
  {
    const Client client = open("good");
    ASSERT_EQ('1', client.data.command('c', 1 << 19));
    ASSERT_TRUE(eventually([&] {
      const auto all = ask([](Broker& b) { return b.metered(); });
      held = all.empty() ? 0 : all.at(0).use.memory_byte_s;
      return held > 0;
    }));
  }
  ASSERT_TRUE(eventually([&] { return session_count() == 0; }));
  const auto before = ask([](Broker& b) { return b.metered(); }).at(0);
  EXPECT_EQ("good", before.tenant);
  EXPECT_GE(before.use.memory_byte_s, held);
  restart();
  const auto after = ask([](Broker& b) { return b.metered(); }).at(0);
  EXPECT_EQ(before.tenant, after.tenant);
  EXPECT_EQ(before.use, after.use) << "nobody had a session since";
  store::UsageQuery query;
  query.to_hour = 1'000'000;
  const auto groups = ask([](Broker& b) { return b.usage_log(); })->query(query);
  ASSERT_TRUE(groups.has_value()) << groups.error().message;
  EXPECT_DOUBLE_EQ(before.use.memory_byte_s, groups->at(0).use.memory_byte_s);
}

TEST_F(AdministrationTest, AReservationIsMeteredWhileTheTenantHasASession) {
  start();
  config::TenantOverride change;
  change.share.guarantee = 0.5;
  ASSERT_TRUE(set("good", change).has_value());
  {
    const Client client = open("good");
    ASSERT_TRUE(eventually([&] {
      const auto all = ask([](Broker& b) { return b.metered(); });
      return !all.empty() && all[0].use.reserved_gpu_s > 0 && all[0].use.reserved_memory_byte_s > 0;
    }));
  }
  ASSERT_TRUE(eventually([&] { return session_count() == 0; }));
  const auto reserved = [this] {
    return ask([](Broker& b) { return b.metered(); }).at(0).use.reserved_gpu_s;
  };
  const double then = reserved();
  EXPECT_EQ(then, reserved()) << "it goes on without a session";
}

TEST_F(AdministrationTest, ANewTokenReplacesTheOldOneAndARevokedOneLetsNobodyIn) {
  start();
  const auto made = ask([](Broker& b) { return b.new_token("good"); });
  const Client running = open(hello_of("good", made->token));
  EXPECT_EQ(Code::kWrongToken, refusal_of(hello_of("good")).code) << "the old token still works";
  ask([](Broker& b) { return b.revoke_token("good").has_value(); });
  EXPECT_EQ(Code::kWrongToken, refusal_of(hello_of("good", made->token)).code);
  EXPECT_EQ('r', running.data.command('r')) << "revoking is not killing";
}

TEST_F(AdministrationTest, ALimitAppliesToSessionsThatRun) {
  start();
  const Client client = open("good");
  EXPECT_EQ('1', client.data.command('c', 1 << 19));
  config::TenantOverride change;
  change.memory_limit_bytes = 1 << 19;
  ASSERT_TRUE(set("good", change).has_value());
  EXPECT_EQ('0', client.data.command('c', 1)) << "a lowered limit is not enforced";
  change.memory_limit_bytes = 1 << 20;
  ASSERT_TRUE(set("good", change).has_value());
  EXPECT_EQ('1', client.data.command('c', 1 << 19)) << "a raised limit does not help";
  change = {};
  change.max_duration = 1ms;
  ASSERT_TRUE(set("good", change).has_value());
  EXPECT_EQ(wire::EndingCode::kDuration,
            client.life_line.hear_a<wire::Ending>().value_or(wire::Ending{}).code);
}

TEST_F(AdministrationTest, ARemovedTenantStaysRemovedAndComesBackAsTheFileHasIt) {
  keep_state();
  start();
  config::TenantOverride change;
  change.max_sessions = 7;
  ASSERT_TRUE(set("good", change).has_value());
  EXPECT_EQ("both", tenant("good").source);
  ASSERT_TRUE(ask([](Broker& b) { return b.remove_tenant("good", false); }).has_value());
  EXPECT_EQ(Code::kUnknownTenant, refusal_of(hello_of("good")).code);
  restart();
  EXPECT_EQ(Code::kUnknownTenant, refusal_of(hello_of("good")).code) << "sluiced.toml won";
  ASSERT_TRUE(set("good", {}).has_value());
  EXPECT_EQ(64u, tenant("good").max_sessions);
  open("good");
}

TEST_F(AdministrationTest, ATenantWithSessionsIsRemovedByForceOnly) {
  start();
  const Client client = open("good");
  const auto refused = ask([](Broker& b) { return b.remove_tenant("good", false); });
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(std::string::npos, refused.error().message.find("--force"));
  EXPECT_EQ('r', client.data.command('r'));
  ASSERT_TRUE(ask([](Broker& b) { return b.remove_tenant("good", true); }).has_value());
  EXPECT_EQ(wire::EndingCode::kKilled,
            client.life_line.hear_a<wire::Ending>().value_or(wire::Ending{}).code);
}

TEST_F(AdministrationTest, KillsWhatItIsToldAndNothingElse) {
  start();
  const Client first = open("good");
  const Client second = open("good");
  const Client other = open("other");
  const auto kill = [&](std::uint64_t id) {
    return ask([&](Broker& b) { return b.kill_session(id); });
  };
  EXPECT_TRUE(kill(first.welcome.session_id).has_value());
  EXPECT_EQ(ErrorCode::kNotFound, kill(999).error().code);
  EXPECT_EQ('r', second.data.command('r'));
  EXPECT_EQ(1u, ask([](Broker& b) { return b.kill_tenant("good"); }).value());
  EXPECT_TRUE(second.life_line.hear_a<wire::Ending>().has_value());
  EXPECT_EQ('r', other.data.command('r'));
  EXPECT_EQ(ErrorCode::kNotFound,
            ask([](Broker& b) { return b.kill_tenant("nobody"); }).error().code);
}

TEST_F(AdministrationTest, RefusesNamesThatNobodyCouldType) {
  start();
  for (const std::string name : {"", "a b", "a\nb", "a\"b", "\xff"})
    EXPECT_FALSE(set(name, {}).has_value()) << name;
  EXPECT_FALSE(set(std::string(65, 'a'), {}).has_value());
  EXPECT_TRUE(set(std::string(64, 'a'), {}).has_value());
}

TEST_F(AdministrationTest, AReloadTakesNewTenantsAndKeepsTheChangesOfSluicectl) {
  reload_ = [this]() -> Result<config::Config> { return config_; };
  start();
  config::TenantOverride change;
  change.max_sessions = 7;
  ASSERT_TRUE(set("good", change).has_value());
  add_tenant("late");
  config_.tenants[0].memory_limit_bytes = 4096;
  ASSERT_TRUE(ask([](Broker& b) { return b.reload(); }).has_value());
  open("late");
  EXPECT_EQ(7u, tenant("good").max_sessions);
  EXPECT_EQ(4096u, tenant("good").memory_limit_bytes);
}

TEST_F(AdministrationTest, AReloadNamesWhatWaitsForARestart) {
  reload_ = [this]() -> Result<config::Config> {
    config::Config next = config_;
    next.driver = "/another/driver";
    return next;
  };
  start();
  const auto summary = ask([](Broker& b) { return b.reload(); });
  ASSERT_TRUE(summary.has_value());
  EXPECT_NE(std::string::npos, summary->find("restart: driver"));
  EXPECT_EQ("/a/driver", ask([](Broker& b) { return b.server().driver; }));
}

TEST_F(AdministrationTest, AFailedReloadChangesNothing) {
  reload_ = []() -> Result<config::Config> {
    return fail(ErrorCode::kInvalidArgument, "line 3 is wrong");
  };
  start();
  EXPECT_FALSE(ask([](Broker& b) { return b.reload(); }).has_value());
  open("good");
}

}  // namespace
}  // namespace sluice::server
