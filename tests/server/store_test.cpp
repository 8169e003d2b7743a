// What must survive the server: also kill -9 at any moment, a damaged file, and a second server.
#include "server/store/tenant_rows.h"
#include "server/store/usage_log.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace sluice::server::store {
namespace {

using namespace std::chrono_literals;
using config::Overrides;
using config::TenantOverride;

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    char name[] = "/tmp/sluice-store.XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~StoreTest() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string state_dir() const { return folder_ + "/state"; }
  [[nodiscard]] std::string file() const { return state_dir() + "/sluiced.db"; }
  [[nodiscard]] State open() const {
    auto state = State::open(state_dir());
    EXPECT_TRUE(state.has_value()) << state.error().message;
    return std::move(*state);
  }
  std::string folder_;
};

unsigned mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(0, ::stat(path.c_str(), &info)) << path;
  return info.st_mode & 0777u;
}

Overrides everything() {
  TenantOverride full;
  full.memory_limit_bytes = 4ull << 30;
  full.max_sessions = 3;
  full.idle_timeout = 10min;
  full.max_duration = 0ms;
  full.share = {0.3, 0.8, 2.5, scheduler::Class::kInteractive};
  full.token_hash.emplace(config::hash_token("secret"));
  TenantOverride revoked;
  revoked.token_hash.emplace();
  TenantOverride removed;
  removed.is_removed = true;
  return {{"full", full}, {"re\"vo\\k'ed", revoked}, {"removed", removed}, {"empty", {}}};
}

// ---- the file

TEST_F(StoreTest, IsTheServersUsersAlone) {
  const State state = open();
  EXPECT_EQ(0700u, mode_of(state_dir()));
  for (const char* name : {"/sluiced.db", "/sluiced.db-wal", "/sluiced.db-shm"})
    EXPECT_EQ(0600u, mode_of(state_dir() + name)) << "hashes of tokens are nobody else's business";
}

TEST_F(StoreTest, ASecondServerIsRefusedWhileTheFirstHasIt) {
  {
    const State first = open();
    const auto second = State::open(state_dir());
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(ErrorCode::kExhausted, second.error().code);
    EXPECT_NE(std::string::npos, second.error().message.find("another sluiced"));
  }
  EXPECT_TRUE(State::open(state_dir()).has_value()) << "it has ended";
}

TEST_F(StoreTest, AFileOfANewerServerIsLeftAlone) {
  ASSERT_TRUE(open().database().run("PRAGMA user_version = 99").has_value());
  const auto again = State::open(state_dir());
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(ErrorCode::kVersion, again.error().code);
}

TEST_F(StoreTest, ADamagedFileIsAnErrorThatNamesIt) {
  std::filesystem::create_directories(state_dir());
  std::ofstream(file()) << std::string(8192, 'x');
  const auto state = State::open(state_dir());
  ASSERT_FALSE(state.has_value());
  EXPECT_NE(std::string::npos, state.error().message.find(file())) << state.error().message;
}

TEST_F(StoreTest, WithoutAFolderTwoServersShareNothing) {
  auto a = State::open(""), b = State::open("");
  ASSERT_TRUE(a.has_value() && b.has_value());
  const TenantOverride change;
  ASSERT_TRUE(save_tenant(*a, "t", &change).has_value());
  EXPECT_EQ(1u, load_tenants(*a)->size());
  EXPECT_TRUE(load_tenants(*b)->empty());
}

// ---- tenants

TEST_F(StoreTest, TenantsComeBackAsTheyWere) {
  {
    State state = open();
    for (const auto& [name, change] : everything())
      ASSERT_TRUE(save_tenant(state, name, &change).has_value());
  }
  State again = open();
  const auto loaded = load_tenants(again);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(everything(), *loaded);
}

TEST_F(StoreTest, ATenantThatIsForgottenIsGone) {
  State state = open();
  const TenantOverride change;
  ASSERT_TRUE(save_tenant(state, "a", &change).has_value());
  ASSERT_TRUE(save_tenant(state, "a", nullptr).has_value());
  EXPECT_TRUE(load_tenants(state)->empty());
}

TEST_F(StoreTest, NothingIsChangedInAFileThatWasReplaced) {
  // Broken: a limit holds until the next restart only, and nobody was told.
  State state = open();
  std::filesystem::rename(file(), file() + ".moved");
  std::ofstream(file()) << "something else";
  const TenantOverride change;
  const auto saved = save_tenant(state, "a", &change);
  ASSERT_FALSE(saved.has_value());
  EXPECT_NE(std::string::npos, saved.error().message.find(file()));
}

TEST_F(StoreTest, TakesOverTheFileOfAnOlderServer) {
  State state = open();
  const std::string older = state_dir() + "/tenants.toml";
  std::ofstream(older) << "[[tenant]]\nname = \"a\"\nmax_sessions = 7\n";
  ASSERT_TRUE(import_older_file(state).has_value());
  EXPECT_EQ(7u, load_tenants(state)->at("a").max_sessions);
  EXPECT_FALSE(std::filesystem::exists(older));
  EXPECT_TRUE(std::filesystem::exists(older + ".imported"));
  ASSERT_TRUE(save_tenant(state, "a", nullptr).has_value());
  ASSERT_TRUE(import_older_file(state).has_value());
  EXPECT_TRUE(load_tenants(state)->empty()) << "it is taken over once";
}

TEST_F(StoreTest, ADamagedFileOfAnOlderServerIsAnError) {
  // Broken: a removed tenant is let in again.
  State state = open();
  std::ofstream(state_dir() + "/tenants.toml") << "[[tenant]\n";
  EXPECT_FALSE(import_older_file(state).has_value());
  EXPECT_TRUE(std::filesystem::exists(state_dir() + "/tenants.toml"));
}

// ---- usage

const UseKey kA{"a", "GPU-1"}, kA2{"a", "GPU-2"}, kB{"b", "GPU-1"};
constexpr std::int64_t kHour = 20'000 * 24 + 5;  ///< 2024-10-04, 5 o'clock

UsageQuery all_time() {
  UsageQuery query;
  query.to_hour = 1'000'000;
  return query;
}

TEST_F(StoreTest, UsageIsAddedUpByHourAndSinceEver) {
  const State state = open();
  {
    const auto log = UsageLog::open(state);
    ASSERT_TRUE(log.has_value()) << log.error().message;
    (*log)->add({{kHour, kA, {1, 2, 3, 4}}, {kHour + 1, kA, {10, 20, 30, 40}}});
    (*log)->add({{kHour, kA, {1, 1, 1, 1}}, {kHour, kB, {5, 0, 0, 0}}});
    UsageQuery query = all_time();
    query.period = Period::kHour;
    const auto groups = (*log)->query(query);
    ASSERT_TRUE(groups.has_value()) << groups.error().message;
    const std::vector<UsageGroup> expected = {{"2024-10-04T05:00Z", "a", "", {2, 3, 4, 5}},
                                              {"2024-10-04T05:00Z", "b", "", {5, 0, 0, 0}},
                                              {"2024-10-04T06:00Z", "a", "", {10, 20, 30, 40}}};
    EXPECT_EQ(expected, *groups);
  }
  const auto again = UsageLog::open(state);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ((Use{12, 23, 34, 45}), (*again)->totals().at(kA));
  EXPECT_EQ((Use{5, 0, 0, 0}), (*again)->totals().at(kB));
}

TEST_F(StoreTest, UsageIsAnsweredAsItWasAskedFor) {
  const State state = open();
  const auto log = UsageLog::open(state).value();
  log->add({{kHour, kA, {1, 0, 0, 0}}, {kHour, kA2, {2, 0, 0, 0}}, {kHour + 24, kB, {4, 0, 0, 0}}});
  UsageQuery query = all_time();
  query.by_tenant = false;
  EXPECT_EQ(7, log->query(query)->at(0).use.gpu_s) << "everything together";
  query.by_gpu = true;
  EXPECT_EQ((UsageGroup{"", "", "GPU-1", {5, 0, 0, 0}}), log->query(query)->at(0));
  query.tenant = "a";
  EXPECT_EQ((UsageGroup{"", "", "GPU-1", {1, 0, 0, 0}}), log->query(query)->at(0));
  query = all_time();
  query.period = Period::kMonth;
  EXPECT_EQ((UsageGroup{"2024-10", "a", "", {3, 0, 0, 0}}), log->query(query)->at(0));
  query.period = Period::kDay;
  query.from_hour = kHour + 1;
  EXPECT_EQ((UsageGroup{"2024-10-05", "b", "", {4, 0, 0, 0}}), log->query(query)->at(0));
  query.to_hour = kHour + 24;
  EXPECT_TRUE(log->query(query)->empty()) << "the last hour is not included";
}

TEST_F(StoreTest, UsageThatCannotBeWrittenIsKeptAndTriedAgain) {
  State state = open();
  const auto log = UsageLog::open(state, 10ms).value();
  ASSERT_TRUE(state.database().run("ALTER TABLE usage RENAME TO away").has_value());
  log->add({{kHour, kA, {1, 0, 0, 0}}});
  while (log->problem().empty()) std::this_thread::yield();
  log->add({{kHour, kA, {2, 0, 0, 0}}});
  ASSERT_TRUE(state.database().run("ALTER TABLE away RENAME TO usage").has_value());
  const auto groups = log->query(all_time());
  ASSERT_TRUE(groups.has_value()) << groups.error().message;
  EXPECT_EQ(3, groups->at(0).use.gpu_s);
}

TEST_F(StoreTest, AnAnswerThatIsTooLongIsAnError) {
  const State state = open();
  const auto log = UsageLog::open(state).value();
  std::vector<UsageRow> rows;
  for (std::size_t i = 0; i <= kUsageGroupsMax; ++i)
    rows.push_back({static_cast<std::int64_t>(i), kA, {1, 0, 0, 0}});
  log->add(rows);
  UsageQuery query = all_time();
  query.period = Period::kHour;
  const auto groups = log->query(query);
  ASSERT_FALSE(groups.has_value());
  EXPECT_EQ(ErrorCode::kExhausted, groups.error().code);
  query.period = Period::kDay;
  EXPECT_TRUE(log->query(query).has_value());
}

// ---- kill -9

/// Forks a process that runs `work` until it is killed, after it has said `lines` times how far it
/// was. The last number that it said.
template <class Work>
std::uint64_t kill_while(Work work, int lines) {
  int pipe[2];
  EXPECT_EQ(0, ::pipe(pipe));
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe[0]);
    work([fd = pipe[1]](std::uint64_t done) {
      if (::write(fd, &done, sizeof done) != sizeof done) ::_exit(0);
    });
    ::_exit(1);
  }
  ::close(pipe[1]);
  std::uint64_t last = 0, said = 0;
  for (int i = 0; i < lines && ::read(pipe[0], &said, sizeof said) == sizeof said; ++i) last = said;
  ::kill(child, SIGKILL);
  while (::read(pipe[0], &said, sizeof said) == sizeof said) last = said;
  ::close(pipe[0]);
  int status = 0;
  EXPECT_EQ(child, ::waitpid(child, &status, 0));
  EXPECT_TRUE(WIFSIGNALED(status)) << "it ended before it was killed: " << status;
  return last;
}

TEST_F(StoreTest, AServerThatIsKilledWhileItWritesLosesNoChangeThatItAcknowledged) {
  for (int lines = 1; lines < 30; lines += 4) {
    const std::uint64_t last = kill_while(
        [&](auto say) {
          auto state = State::open(state_dir());
          TenantOverride change;
          for (std::uint64_t i = 1; state.has_value(); ++i) {
            change.memory_limit_bytes = i;
            if (!save_tenant(*state, "a", &change)) return;
            say(i);
          }
        },
        lines);
    State state = open();
    const auto loaded = load_tenants(state);
    ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
    const std::uint64_t there = loaded->at("a").memory_limit_bytes.value();
    EXPECT_GE(there, last) << "an acknowledged change is lost";
    EXPECT_LE(there, last + 1) << "a change that was never made";
  }
}

TEST_F(StoreTest, AServerThatIsKilledWhileItWritesUsageLeavesHoursAndTotalsThatAgree) {
  const std::vector<UsageRow> rows = {{kHour, kA, {1, 0, 0, 0}}, {kHour + 1, kA, {2, 0, 0, 0}}};
  for (int lines = 1; lines < 20; lines += 4) {
    kill_while(
        [&](auto say) {
          auto state = State::open(state_dir());
          if (!state) return;
          auto log = UsageLog::open(*state);
          for (std::uint64_t i = 1; log.has_value(); ++i) {
            (*log)->add(rows);
            if (!(*log)->query(all_time())) return;
            say(i);
          }
        },
        lines);
    const State state = open();
    const auto log = UsageLog::open(state).value();
    const auto hours = log->query(all_time());
    ASSERT_TRUE(hours.has_value()) << hours.error().message;
    EXPECT_EQ(log->totals().at(kA), hours->at(0).use);
    EXPECT_EQ(0, static_cast<std::int64_t>(hours->at(0).use.gpu_s) % 3) << "half a batch";
  }
}

}  // namespace
}  // namespace sluice::server::store
