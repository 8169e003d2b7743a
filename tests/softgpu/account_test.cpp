// If these fail, processes that share a software GPU get more memory than it has, or lose it for
// good when one is killed.
#include "softgpu/memory/account.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

namespace sluice::softgpu {
namespace {

constexpr std::size_t kCapacity = std::size_t{64} << 20;
constexpr std::size_t kMiB = std::size_t{1} << 20;

/// An account of its own for each test, removed behind it.
class AccountTest : public ::testing::Test {
 protected:
  AccountTest() : ordinal_(1000 + ::getpid()) {}
  ~AccountTest() override {
    ::unlink(("/dev/shm/softgpu-" + std::to_string(::getuid()) + "-default-" +
              std::to_string(ordinal_) + "-64")
                 .c_str());
  }
  std::unique_ptr<Account> open() {
    auto account = open_account(ordinal_, kCapacity);
    EXPECT_TRUE(account) << account.error().message;
    return std::move(*account);
  }
  /// A process that charges and then lives until it is killed.
  pid_t holder(std::size_t bytes) {
    int ready[2];
    EXPECT_EQ(0, ::pipe(ready));
    const pid_t pid = ::fork();
    if (pid == 0) {
      const auto account = open_account(ordinal_, kCapacity);
      const char answer = account && (*account)->charge(bytes) ? 'y' : 'n';
      if (::write(ready[1], &answer, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char answer = 0;
    EXPECT_EQ(1, ::read(ready[0], &answer, 1));
    EXPECT_EQ('y', answer);
    ::close(ready[0]);
    ::close(ready[1]);
    return pid;
  }
  static void end(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  int ordinal_;
};

TEST_F(AccountTest, FillsToTheLastByteAndNotBeyond) {
  const auto account = open();
  EXPECT_TRUE(account->charge(kCapacity - 1));
  EXPECT_TRUE(account->charge(1));
  EXPECT_FALSE(account->charge(1));
  EXPECT_EQ(kCapacity, account->used_bytes());
  account->refund(kCapacity);
  EXPECT_EQ(0u, account->used_bytes());
}

TEST_F(AccountTest, ProcessesShareOneCapacity) {
  const auto account = open();
  const pid_t other = holder(40 * kMiB);
  EXPECT_EQ(40 * kMiB, account->used_bytes());
  EXPECT_FALSE(account->charge(25 * kMiB));
  EXPECT_TRUE(account->charge(24 * kMiB));
  end(other);
}

TEST_F(AccountTest, WhatAKilledProcessHeldComesBack) {
  const auto account = open();
  for (int round = 0; round < 3; ++round) {
    end(holder(60 * kMiB));
    EXPECT_EQ(0u, account->used_bytes());
    EXPECT_TRUE(account->charge(kCapacity)) << "without asking for the use first";
    account->refund(kCapacity);
  }
}

TEST_F(AccountTest, ManyProcessesNeverExceedTheCapacity) {
  // Each takes 3 MiB pieces until none is left; together they hold at most the capacity.
  std::vector<pid_t> pids;
  for (int i = 0; i < 4; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      const auto account = open_account(ordinal_, kCapacity);
      if (!account) ::_exit(100);
      for (int round = 0; round < 200; ++round) {
        std::size_t held = 0;
        while ((*account)->charge(3 * kMiB)) held += 3 * kMiB;
        if (held > kCapacity || (*account)->used_bytes() > kCapacity) ::_exit(1);
        (*account)->refund(held);
      }
      ::_exit(0);
    }
    pids.push_back(pid);
  }
  for (const pid_t pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(0, status);
  }
  EXPECT_EQ(0u, open()->used_bytes());
}

}  // namespace
}  // namespace sluice::softgpu
