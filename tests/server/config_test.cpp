// What an administrator writes must mean what it says, also after a restart.
#include "server/config/config.h"

#include "server/config/duration.h"
#include "server/config/overrides.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
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
  for (const char* text : {"", "10", "m", "-1s", "1w", "1.5h", "99999999999999999999s", "9999999d"})
    EXPECT_FALSE(parse_duration(text).has_value()) << text;
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

Overrides everything() {
  TenantOverride full;
  full.memory_limit_bytes = 4ull << 30;
  full.max_sessions = 3;
  full.idle_timeout = 10min;
  full.max_duration = 0ms;
  full.token_hash.emplace(hash_token("secret"));
  TenantOverride revoked;
  revoked.token_hash.emplace();
  TenantOverride removed;
  removed.is_removed = true;
  return {{"full", full}, {"re\"vo\\ked", revoked}, {"removed", removed}, {"empty", {}}};
}

TEST_F(OverridesTest, ComesBackFromItsFileAsItWas) {
  ASSERT_TRUE(save_overrides(everything(), path()).has_value());
  const auto loaded = load_overrides(path());
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(everything(), *loaded);
  struct stat info {};
  ASSERT_EQ(0, ::stat(path().c_str(), &info));
  EXPECT_EQ(0600u, info.st_mode & 0777u) << "hashes of tokens are nobody else's business";
}

TEST_F(OverridesTest, TakesAnAbsentFileForEmptyAndADamagedOneForAnError) {
  EXPECT_TRUE(load_overrides(path()).value().empty());
  std::ofstream(path()) << "[[tenant]]\nname = \"a\"\nmax_sesions = 3\n";
  const auto loaded = load_overrides(path());
  ASSERT_FALSE(loaded.has_value());
  EXPECT_NE(std::string::npos, loaded.error().message.find("max_sessions"));
}

TEST_F(OverridesTest, KeepsTheOldFileWhenTheNewOneCannotBeWritten) {
  EXPECT_FALSE(save_overrides(everything(), folder_ + "/none/tenants.toml").has_value());
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
