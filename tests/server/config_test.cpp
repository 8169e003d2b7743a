// What an administrator writes must mean what it says, also after a restart.
#include "server/config/config.h"

#include "common/duration.h"
#include "server/config/overrides.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sluice::config {
namespace {

using namespace std::chrono_literals;

TEST(Duration, ReadsWhatPeopleWrite) {
  EXPECT_EQ(10min, parse_duration("10m").value());
  EXPECT_EQ(90min, parse_duration("1h30m").value());
  EXPECT_EQ(500ms, parse_duration("500ms").value());
  EXPECT_EQ(49h, parse_duration("2d1h").value());
  EXPECT_EQ(0ms, parse_duration("none").value());
}

TEST(Duration, RefusesWhatItCannotMean) {
  for (const char* text :
       {"", "0", "10", "m", "-1s", "1w", "1.5h", "99999999999999999999s", "9999999d"})
    EXPECT_FALSE(parse_duration(text).has_value()) << text;
}

TEST(Duration, RefusesAZeroThatIsNotCalledNone) {
  for (const char* text : {"0s", "0h0m", "0ms"}) {
    const auto time = parse_duration(text);
    ASSERT_FALSE(time.has_value()) << text;
    EXPECT_NE(std::string::npos, time.error().message.find("it is zero"));
    EXPECT_NE(std::string::npos, time.error().message.find("\"none\""));
  }
}

TEST(Duration, WritesWhatItReadsBack) {
  for (const auto time : {0ms, 1ms, 1500ms, 60000ms, 5400000ms, 90061001ms})
    EXPECT_EQ(time, parse_duration(duration_text(time)).value()) << duration_text(time);
}

const std::string kStart = "[server]\nlisten = [\"unix:/run/s\"]\n";
const std::string kTenant =
    "[[tenant]]\nname = \"a\"\ntoken_sha256 = \"" + std::string(64, 'a') + "\"\n";

TEST(Config, ReadsTheLimitsOfATenant) {
  const auto config =
      parse(kStart + kTenant + "idle_timeout = \"10m\"\nmax_duration = \"8h\"\n", "f");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(10min, config->tenants[0].idle_timeout);
  EXPECT_EQ(8h, config->tenants[0].max_duration);
}

TEST(Config, NamesTheLineOfATimeThatIsNone) {
  const auto config = parse(kStart + kTenant + "idle_timeout = \"10 minutes\"\n", "f");
  ASSERT_FALSE(config.has_value());
  EXPECT_NE(std::string::npos, config.error().message.find("f:6: idle_timeout"));
}

TEST(Config, SaysInOneSentenceWhatIsWrongWithAValue) {
  const auto message = [](const std::string& text) {
    const auto config = parse(text, "f");
    return config.has_value() ? "" : config.error().message;
  };
  const std::string time = message(kStart + kTenant + "idle_timeout = \"soon\"\n");
  EXPECT_TRUE(time.starts_with("f:6: idle_timeout in [[tenant]]: \"soon\" is no time")) << time;
  const std::string size = message(kStart + kTenant + "memory_limit = \"lots\"\n");
  EXPECT_TRUE(size.starts_with("f:6: memory_limit in [[tenant]]: \"lots\" is no size")) << size;
  const std::string address = message("[server]\nlisten = [\"/run/s\"]\n");
  EXPECT_TRUE(address.starts_with("f:2: listen in [server]: server address")) << address;
}

TEST(Config, KnowsWhetherATenantIsChargedForItsContexts) {
  EXPECT_FALSE(parse(kStart + kTenant, "f")->tenants[0].charges_context);
  EXPECT_FALSE(parse(kStart + kTenant + "context = \"free\"\n", "f")->tenants[0].charges_context);
  EXPECT_TRUE(parse(kStart + kTenant + "context = \"charge\"\n", "f")->tenants[0].charges_context);
  for (const char* wrong : {"\"half\"", "true", "\"\""}) {
    const auto config = parse(kStart + kTenant + "context = " + wrong + "\n", "f");
    ASSERT_FALSE(config.has_value()) << wrong;
    EXPECT_TRUE(config.error().message.starts_with("f:6: context in [[tenant]]: expected \"free\""))
        << config.error().message;
  }
}

TEST(Config, TakesAnEmptyTextForNoValueAtAll) {
  EXPECT_FALSE(parse(kStart + kTenant + "idle_timeout = \"\"\n", "f").has_value());
  EXPECT_FALSE(parse(kStart + kTenant + "memory_limit = \"\"\n", "f").has_value());
}

TEST(Config, RefusesMoreWorkersAheadOfTimeThanAMachineCanHold) {
  const auto with = [](std::uint32_t count) {
    return parse(kStart + "prestart_workers = " + std::to_string(count) + "\n", "f");
  };
  EXPECT_TRUE(with(kPrestartCountMax).has_value());
  for (const std::uint32_t count : {kPrestartCountMax + 1, 100'000u}) {
    const auto config = with(count);
    ASSERT_FALSE(config.has_value());
    EXPECT_EQ("f:3: prestart_workers in [server]: expected a number from 0 to 256",
              config.error().message);
  }
}

TEST(Config, TakesIoUringAsAutoOnOrOff) {
  EXPECT_EQ("auto", parse(kStart, "f")->io_uring);
  for (const auto& [value, is_good] :
       {std::pair{"auto", true}, std::pair{"on", true}, std::pair{"off", true},
        std::pair{"yes", false}, std::pair{"", false}}) {
    const auto config = parse(kStart + "io_uring = \"" + value + "\"\n" + kTenant, "f");
    ASSERT_TRUE(config.has_value());
    EXPECT_EQ(is_good, check(*config).has_value()) << value;
  }
}

TEST(Config, RefusesAStatsFileThatHasNoPlace) {
  Config config = parse(kStart, "f").value();
  for (const char* file : {"/nonexistent/stats", "/tmp", "/dev/null/stats"}) {
    config.stats_file = file;
    const auto checked = check(config);
    ASSERT_FALSE(checked.has_value()) << file;
    EXPECT_NE(std::string::npos, checked.error().message.find("stats_file in [server]"));
  }
  for (const char* file : {"", "/tmp/sluice-no-such-file", "stats"}) {
    config.stats_file = file;
    EXPECT_TRUE(check(config).has_value()) << file;
  }
}

TEST(Config, TellsAFolderOrAnAbsentFileFromAnEmptyConfiguration) {
  const auto folder = load("/tmp");
  ASSERT_FALSE(folder.has_value());
  EXPECT_EQ("/tmp is a folder; name a file", folder.error().message);
  const auto none = load("/nonexistent/sluiced.toml");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ("the configuration: there is no file /nonexistent/sluiced.toml", none.error().message);
}

TEST(Config, MetricsHaveAnAddress) {
  EXPECT_EQ("127.0.0.1:9400",
            parse(kStart + "[metrics]\nlisten = \"127.0.0.1:9400\"\n", "f").value().metrics.listen);
  EXPECT_EQ("", parse(kStart, "f").value().metrics.listen) << "none unless it is asked for";
  for (const char* wrong : {"9400", ":9400", "host:", "host:http", "host"}) {
    const auto read = parse(kStart + "[metrics]\nlisten = \"" + std::string(wrong) + "\"\n", "f");
    ASSERT_FALSE(read.has_value()) << wrong;
    EXPECT_NE(std::string::npos, read.error().message.find("HOST:PORT")) << read.error().message;
  }
}

TEST(Config, PutsTheControlSocketBesideTheFirstUnixAddress) {
  EXPECT_EQ("/run/s.control", control_socket(parse(kStart, "f").value()));
  EXPECT_EQ("/x", control_socket(parse(kStart + "[control]\nsocket = \"/x\"\n", "f").value()));
  EXPECT_EQ("", control_socket(parse(kStart + "[control]\nsocket = \"none\"\n", "f").value()));
  EXPECT_EQ("", control_socket(parse("[server]\nlisten = [\"127.0.0.1\"]\n", "f").value()));
}

TEST(Config, NeedsNoTenantIfOneCanBeAddedLater) {
  EXPECT_TRUE(check(parse(kStart, "f").value()).has_value());
  EXPECT_FALSE(check(parse(kStart + "[control]\nsocket = \"none\"\n", "f").value()).has_value());
}

TEST(Config, OffersTheNearestNameForAControlKey) {
  const auto config = parse(kStart + "[control]\nsoket = \"/x\"\n", "f");
  ASSERT_FALSE(config.has_value());
  EXPECT_NE(std::string::npos, config.error().message.find("did you mean \"socket\""));
}

class OverridesTest : public ::testing::Test {
 protected:
  OverridesTest() {
    char name[] = "/tmp/sluice-state.XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~OverridesTest() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path() const { return folder_ + "/tenants.toml"; }
  std::string folder_;
};

TEST_F(OverridesTest, TakesAnAbsentFileForEmptyAndADamagedOneForAnError) {
  EXPECT_TRUE(load_overrides(path()).value().empty());
  std::ofstream(path()) << "[[tenant]]\nname = \"a\"\nmax_sesions = 3\n";
  const auto loaded = load_overrides(path());
  ASSERT_FALSE(loaded.has_value());
  EXPECT_NE(std::string::npos, loaded.error().message.find("max_sessions"));
}

TEST(Overrides, WinKeyByKeyAndLeaveTheRestToTheFile) {
  Tenant a;
  a.name = "a";
  a.token_hash = hash_token("file");
  a.memory_limit_bytes = 1;
  a.max_sessions = 5;
  TenantOverride change;
  change.memory_limit_bytes = 2;
  const auto tenants = apply_overrides({a}, {{"a", change}, {"new", change}});
  ASSERT_EQ(2u, tenants.size());
  EXPECT_EQ(2u, tenants[0].memory_limit_bytes);
  EXPECT_EQ(5u, tenants[0].max_sessions);
  EXPECT_EQ(a.token_hash, tenants[0].token_hash);
  EXPECT_EQ("new", tenants[1].name);
  EXPECT_FALSE(tenants[1].token_hash.has_value()) << "a tenant without a token lets nobody in";
}

TEST(Overrides, HideARemovedTenantUntilItIsSetAgain) {
  Tenant a;
  a.name = "a";
  TenantOverride change;
  change.is_removed = true;
  EXPECT_TRUE(apply_overrides({a}, {{"a", change}}).empty());
  change.merge(TenantOverride{});
  EXPECT_EQ(1u, apply_overrides({a}, {{"a", change}}).size());
}

}  // namespace
}  // namespace sluice::config
