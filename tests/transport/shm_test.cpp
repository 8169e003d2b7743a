// What only shared memory can get wrong among honest ends: wrap-around, lost wake-ups, peers that
// are killed, children.
#include "joining_thread.h"
#include "pairs.h"
#include "transport/shm/layout.h"
#include "transport/shm/spin_policy.h"
#include "transport/shm/step_aside.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>

namespace sluice::transport::testing {
namespace {

bool sees_shared_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:sluice") != std::string::npos) return true;
  return false;
}

/// Runs the server's end in another process.
class OtherProcess {
 public:
  template <class Body>
  explicit OtherProcess(const Body& body) {
    std::array<Fd, 2> sockets = make_sockets("unix");
    auto memory = shm::make_memory();
    if (!memory) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      sockets[0].reset();
      const auto server = make_shm_end(memory->fd.get(), std::move(sockets[1]), shm::Side::kServer);
      body(*server);
      ::_exit(0);
    }
    sockets[1].reset();
    channel_ = make_shm_end(memory->fd.get(), std::move(sockets[0]), shm::Side::kClient);
  }
  ~OtherProcess() { kill(); }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  Channel& channel() { return *channel_; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  std::unique_ptr<Channel> channel_;
};

/// Says one byte and then nothing for ever.
void say_hello(Channel& channel) {
  fill_pattern(0, channel.reserve(1));
  channel.commit(1, FlushHint::kNow);
  for (;;) ::pause();
}

void echo(Channel& channel) {
  PatternSink sink;
  std::vector<std::byte> bytes(kSoonBytes);
  for (std::uint64_t done = 0;; done = sink.received()) {
    if (!receive(channel, sink, done + 1)) return;
    bytes.resize(sink.received() - done);
    fill_pattern(done, bytes);
    if (!channel.write_through(bytes)) return;
  }
}

TEST(Shm, RecordsSurviveTheEndOfTheRingAtEveryOffset) {
  // Broken: one record in a thousand arrives damaged.
  Pair ends = make_pair("shm");
  PatternSink sink;
  std::uint64_t sent = 0;
  const auto send = [&](std::size_t bytes) {
    const std::span<std::byte> space = ends.client->reserve(bytes);
    ASSERT_EQ(space.size(), bytes);
    fill_pattern(sent, space);
    ends.client->commit(bytes, FlushHint::kNow);
    sent += bytes;
    ASSERT_TRUE(receive(*ends.server, sink, sent));
  };
  constexpr std::size_t kAround = 300;
  constexpr std::size_t kPiece = 64 * 1024;
  for (std::size_t offset = 1; offset <= kAround; ++offset) {
    // To `offset` bytes before the end, then across it.
    std::size_t left = shm::kRingBytes - offset - static_cast<std::size_t>(sent % shm::kRingBytes);
    for (; left > 0; left -= std::min(left, kPiece)) send(std::min(left, kPiece));
    send(kAround);
  }
  EXPECT_TRUE(sink.is_intact());
}

TEST(Shm, NoWakeUpIsLostInManyShortExchanges) {
  // Broken: a call hangs for a moment now and then, on a busy machine only.
  OtherProcess other(echo);
  PatternSink sink;
  constexpr std::uint64_t kRounds = 20'000;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    fill_pattern(i, other.channel().reserve(1));
    other.channel().commit(1, FlushHint::kNow);
    while (sink.received() == i) {
      ASSERT_TRUE(other.channel().poll(sink, 64));
      if (sink.received() > i) break;
      const auto is_ready = other.channel().wait(far());
      ASSERT_TRUE(is_ready);
      ASSERT_TRUE(*is_ready);
    }
  }
  EXPECT_TRUE(sink.is_intact());
}

TEST(Shm, BothEndsFullMakeProgressWhenOneReads) {
  // Broken: client and worker, both blocked in sending, never look at what the other sent.
  Pair ends = make_pair("shm");
  constexpr std::uint64_t kBytes = 8 * 1024 * 1024;
  const auto send = [](Channel& channel) {
    std::vector<std::byte> bytes(kBytes);
    fill_pattern(0, bytes);
    EXPECT_TRUE(channel.write_through(bytes));
  };
  PatternSink up, down;
  {
    const JoiningThread a([&] { send(*ends.client); });
    const JoiningThread b([&] { send(*ends.server); });
    EXPECT_TRUE(receive(*ends.client, down, kBytes));
    EXPECT_TRUE(receive(*ends.server, up, kBytes));
  }
  EXPECT_TRUE(up.is_intact());
  EXPECT_TRUE(down.is_intact());
}

TEST(Shm, AKilledPeerEndsASleepWithoutADeadline) {
  // Broken: a program whose worker crashed hangs for ever.
  OtherProcess other(say_hello);
  PatternSink sink;
  ASSERT_TRUE(receive(other.channel(), sink, 1));
  const JoiningThread killer([&] { other.kill(); });
  const auto is_ready = other.channel().wait(Deadline::max());
  ASSERT_TRUE(is_ready);
  EXPECT_TRUE(*is_ready);
  EXPECT_EQ(receive_to_end(other.channel(), sink).code, ErrorCode::kPeerClosed);
}

TEST(Shm, WhatAKilledPeerHadSentStillArrives) {
  // Broken: the error that explains a crash is lost with the crash.
  OtherProcess other(say_hello);
  ASSERT_TRUE(other.channel().wait(far()).value_or(false));
  other.kill();
  PatternSink sink;
  EXPECT_EQ(receive_to_end(other.channel(), sink).code, ErrorCode::kPeerClosed);
  EXPECT_EQ(sink.received(), 1U);
}

TEST(Shm, AKilledPeerEndsABlockedSend) {
  // Broken: the same, for a program that is sending when its worker crashes.
  OtherProcess other(say_hello);
  PatternSink sink;
  ASSERT_TRUE(receive(other.channel(), sink, 1));
  const JoiningThread killer([&] { other.kill(); });
  const std::vector<std::byte> bytes(4 * shm::kRingBytes);
  const Status sent = other.channel().write_through(bytes);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::kPeerClosed);
}

TEST(Shm, AForkedChildSeesNothingOfItAndHarmsNothing) {
  // Broken: a child (a data loader) speaks for its parent, or closes the parent's session when it
  // exits.
  OtherProcess other(echo);
  ASSERT_TRUE(sees_shared_memory());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_clean = !sees_shared_memory();
    other.channel().abandon_in_child();
    other.channel().close();  // as a destructor would
    ::_exit(is_clean ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  fill_pattern(0, other.channel().reserve(8));
  other.channel().commit(8, FlushHint::kNow);
  PatternSink sink;
  EXPECT_TRUE(receive(other.channel(), sink, 8));
}

TEST(Shm, ALongWaitCostsNextToNoProcessorTime) {
  // Broken: a program that waits for a long kernel burns a core (nothing spins after 50 us).
  Pair ends = make_pair("shm");
  const auto used = [] {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    const auto us = [](const timeval& t) { return t.tv_sec * 1'000'000 + t.tv_usec; };
    return std::chrono::microseconds(us(usage.ru_utime) + us(usage.ru_stime));
  };
  const auto before = used();
  const auto waited = std::chrono::milliseconds(300);
  EXPECT_FALSE(ends.client->wait(Clock::now() + waited).value_or(true));
  EXPECT_LT(used() - before, waited / 10);
}

TEST(Shm, BothEndsSeeTheStagingMemory) {
  // Broken: bulk copies compute with what was there before.
  Pair ends = make_pair("shm");
  const std::span<std::byte> ours = ends.client->staging();
  const std::span<std::byte> theirs = ends.server->staging();
  ASSERT_EQ(ours.size(), shm::kStagingBytes);
  ASSERT_EQ(theirs.size(), shm::kStagingBytes);
  fill_pattern(5, ours);
  std::vector<std::byte> expected(theirs.size());
  fill_pattern(5, expected);
  EXPECT_TRUE(std::equal(theirs.begin(), theirs.end(), expected.begin()));
  EXPECT_TRUE(make_pair("unix").client->staging().empty());
}

TEST(ShmSpin, StopsWhenItDoesNotPayAndTriesAgainNowAndThen) {
  // Broken: on a busy machine every call burns 50 us for nothing.
  shm::SpinPolicy policy(2);
  int spins = 0;
  for (int i = 0; i < 1000; ++i) {
    if (!policy.may_spin(0, 1)) continue;
    ++spins;
    policy.failed();
  }
  EXPECT_LT(spins, 50);
  EXPECT_GT(spins, 16);
  policy.succeeded();
  EXPECT_TRUE(policy.may_spin(0, 1));
}

TEST(ShmSpin, NeverOnThePeersProcessorNorOnTheOnlyOneNorAfterAQuietWait) {
  // Broken: the peer waits for the processor on which we wait for the peer.
  shm::SpinPolicy policy(2);
  EXPECT_TRUE(policy.may_spin(0, 1));
  EXPECT_FALSE(policy.may_spin(1, 1));
  policy.note_quiet();
  EXPECT_FALSE(policy.may_spin(0, 1));
  policy.note_traffic();
  EXPECT_TRUE(policy.may_spin(0, 1));
  EXPECT_FALSE(shm::SpinPolicy(1).may_spin(0, 1));
}

TEST(ShmStepAside, IsDueSeldomAndMoreSeldomWhenItDoesNotHelp) {
  // Broken: on a machine with one free core every few calls pay for a move that is undone at once.
  shm::StepAside aside;
  int moves = 0;
  for (int i = 0; i < 100'000; ++i) moves += aside.is_due() ? 1 : 0;
  EXPECT_GE(moves, 2);
  EXPECT_LE(moves, 12);
  for (int i = 0; i < 1000; ++i) aside.note_success();
  int until_next = 1;
  while (!aside.is_due()) ++until_next;
  EXPECT_LE(until_next, 1000);
}

TEST(ShmStepAside, MovesTheThreadAndLeavesItFreeToReturn) {
  cpu_set_t before, after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "one core";
  const int cpu = ::sched_getcpu();
  shm::StepAside::move_from(static_cast<std::uint32_t>(cpu));
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
  shm::StepAside::move_from(UINT32_MAX);  // a peer may claim anything
}

}  // namespace
}  // namespace sluice::transport::testing
