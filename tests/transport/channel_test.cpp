// The conformance suite: what every channel must do. A new transport adds its kind to the list at
// the end.
#include "joining_thread.h"
#include "pairs.h"
#include "transport/uring/uring_stream.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

namespace sluice::transport::testing {
namespace {

class ChannelTest : public ::testing::TestWithParam<std::string> {
 protected:
  Pair ends_ = make_pair(GetParam());
  Channel& client_ = *ends_.client;
  Channel& server_ = *ends_.server;
};

/// Sends records of 1 B to 1 MiB, small ones in the batch, large ones through, and flushes at
/// random.
Status send_records(Channel& channel, std::uint64_t seed, std::uint64_t bytes) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> large(1024 * 1024);
  std::uint64_t offset = 0;
  while (offset < bytes) {
    const std::uint64_t record =
        std::min<std::uint64_t>(bytes - offset, 1 + random() % (2ULL << (random() % 20)));
    if (record <= channel.caps().reserve_bytes_max && random() % 4 != 0) {
      const std::span<std::byte> space = channel.reserve(record);
      if (space.size() != record) return fail(ErrorCode::kInternal, "reserve() gave too little");
      fill_pattern(offset, space);
      constexpr FlushHint kHints[] = {FlushHint::kNone, FlushHint::kNone, FlushHint::kSoon,
                                      FlushHint::kNow};
      channel.commit(record, kHints[random() % 4]);
    } else {
      const std::span<std::byte> payload = std::span(large).first(record);
      fill_pattern(offset, payload);
      SLUICE_CHECK(channel.write_through(payload));
      std::memset(payload.data(), 0, payload.size());  // the caller may reuse it at once
    }
    offset += record;
  }
  return channel.flush();
}

/// Writes until the channel ends; `sent` counts.
Error send_until_failure(Channel& channel, std::atomic<std::uint64_t>& sent) {
  std::vector<std::byte> piece(48 * 1024);
  for (;;) {
    fill_pattern(sent, piece);
    if (const Status status = channel.write_through(piece); !status) return status.error();
    sent += piece.size();
  }
}

/// Over TCP, a sender that has just stopped still has a remainder that a timer sends, and the
/// answer to that wakes it by chance. It is truly blocked once the host kernel has begun to ask
/// whether the peer's window has opened.
bool is_probing(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || info.tcpi_backoff >= 2;
}

/// Returns when `sent` has stopped growing, which is as near to "the sender is blocked" as an
/// observer gets.
void watch_until_stalled(const Channel& channel, const std::atomic<std::uint64_t>& sent) {
  const Deadline deadline = far();
  std::uint64_t seen = 0;
  for (int quiet = 0; (quiet < 2000 || !is_probing(channel.wait_fd())) && Clock::now() < deadline;
       ++quiet) {
    if (seen != sent.load()) quiet = 0;
    seen = sent;
    std::this_thread::yield();
  }
}

TEST_P(ChannelTest, DeliversRandomRecordsInOrderInBothDirectionsAtOnce) {
  // Broken: programs compute with wrong bytes, or hang when both sides talk at once.
  constexpr std::uint64_t kBytes = 12 * 1024 * 1024;
  Status sent[2], received[2];
  PatternSink sinks[2];
  {
    const JoiningThread a([&] { sent[0] = send_records(client_, 1, kBytes); });
    const JoiningThread b([&] { sent[1] = send_records(server_, 2, kBytes); });
    const JoiningThread c([&] { received[0] = receive(server_, sinks[0], kBytes); });
    received[1] = receive(client_, sinks[1], kBytes);
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(sent[i]) << sent[i].error().message;
    EXPECT_TRUE(received[i]) << received[i].error().message;
    EXPECT_EQ(sinks[i].received(), kBytes);
    EXPECT_TRUE(sinks[i].is_intact());
  }
}

TEST_P(ChannelTest, HoldsTheSenderBackWhileThePeerDoesNotRead) {
  // Broken: a fast client makes the server's memory grow without limit.
  constexpr std::uint64_t kBytes = 64 * 1024 * 1024;
  constexpr std::uint64_t kUnderWayMax = 32 * 1024 * 1024;  // more than host kernels buffer
  std::atomic<std::uint64_t> sent = 0;
  const JoiningThread sender([&] {
    std::vector<std::byte> piece(1024 * 1024);
    while (sent < kBytes) {
      fill_pattern(sent, piece);
      if (!client_.write_through(piece)) return;
      sent += piece.size();
    }
  });
  watch_until_stalled(client_, sent);
  EXPECT_LE(sent.load(), kUnderWayMax);
  PatternSink sink;
  const Status received = receive(server_, sink, kBytes);
  EXPECT_TRUE(received) << received.error().message;
  EXPECT_TRUE(sink.is_intact());
}

TEST_P(ChannelTest, CallsBackWhileThePeerTakesNothing) {
  // Broken: the thread that watches the session sends, too, blocks, and a lost server is a hang.
  constexpr std::uint64_t kBytes = 64 * 1024 * 1024;
  std::atomic<std::uint64_t> calls = 0;
  client_.set_while_blocked([&] { ++calls; });
  const JoiningThread sender([&] {
    std::vector<std::byte> piece(1024 * 1024);
    for (std::uint64_t sent = 0; sent < kBytes; sent += piece.size()) {
      fill_pattern(sent, piece);
      if (!client_.write_through(piece)) return;
    }
  });
  while (calls < 2) std::this_thread::yield();
  PatternSink sink;
  const Status received = receive(server_, sink, kBytes);
  EXPECT_TRUE(received) << received.error().message;
  EXPECT_TRUE(sink.is_intact());
}

TEST_P(ChannelTest, DeliversEverythingSentBeforeThePeerClosed) {
  // Broken: the last words of a server (the error that explains the end) are lost.
  constexpr std::size_t kBytes = 3'000'000;
  const JoiningThread sender([&] {
    std::vector<std::byte> bytes(kBytes);
    fill_pattern(0, bytes);
    EXPECT_TRUE(server_.write_through(bytes));
    server_.close();
  });
  PatternSink sink;
  const Error end = receive_to_end(client_, sink);
  EXPECT_EQ(end.code, ErrorCode::kPeerClosed) << end.message;
  EXPECT_EQ(sink.received(), kBytes);
  EXPECT_TRUE(sink.is_intact());
}

TEST_P(ChannelTest, DeliversWhatAPeerSentThatNoLongerExists) {
  // Broken: the last answer is lost when the worker exits at once after it.
  std::vector<std::byte> bytes(10'000);
  fill_pattern(0, bytes);
  ASSERT_TRUE(server_.write_through(bytes));
  ends_.server.reset();
  PatternSink sink;
  EXPECT_EQ(receive_to_end(client_, sink).code, ErrorCode::kPeerClosed);
  EXPECT_EQ(sink.received(), bytes.size());
  EXPECT_EQ(receive_to_end(client_, sink).code, ErrorCode::kPeerClosed)
      << "the end must stay the end";
}

TEST_P(ChannelTest, SendingFailsAfterThePeerClosed) {
  // Broken: a program goes on with a dead server and never learns of it.
  server_.close();
  std::atomic<std::uint64_t> sent = 0;
  EXPECT_EQ(send_until_failure(client_, sent).code, ErrorCode::kPeerClosed);
  EXPECT_TRUE(client_.reserve(16).empty());
  const Status why = client_.flush();
  ASSERT_FALSE(why);
  EXPECT_EQ(why.error().code, ErrorCode::kPeerClosed);
  EXPECT_FALSE(why.error().message.empty());
}

TEST_P(ChannelTest, CloseWakesWaitersAtBothEnds) {
  // Broken: exit() of a program hangs, or a session outlives its client.
  Result<bool> woken[2] = {false, false};
  {
    const JoiningThread a([&] { woken[0] = client_.wait(far()); });
    const JoiningThread b([&] { woken[1] = server_.wait(far()); });
    client_.close();
  }
  for (const Result<bool>& result : woken) {
    ASSERT_TRUE(result);
    EXPECT_TRUE(*result);
  }
  PatternSink sink;
  EXPECT_EQ(receive_to_end(client_, sink).code, ErrorCode::kPeerClosed);
  EXPECT_EQ(receive_to_end(server_, sink).code, ErrorCode::kPeerClosed);
}

TEST_P(ChannelTest, CloseWakesABlockedSenderAtTheSameEnd) {
  // Broken: a thread that cannot send keeps the process alive.
  std::atomic<std::uint64_t> sent = 0;
  Error end;
  {
    const JoiningThread sender([&] { end = send_until_failure(client_, sent); });
    watch_until_stalled(client_, sent);
    client_.close();
  }
  EXPECT_EQ(end.code, ErrorCode::kPeerClosed) << end.message;
}

TEST_P(ChannelTest, CloseWakesABlockedSenderAtTheOtherEnd) {
  // Broken: a program hangs when its worker gives up without having read everything.
  std::atomic<std::uint64_t> sent = 0;
  Error end;
  {
    const JoiningThread sender([&] { end = send_until_failure(client_, sent); });
    watch_until_stalled(client_, sent);
    server_.close();
  }
  EXPECT_EQ(end.code, ErrorCode::kPeerClosed) << end.message;
}

TEST_P(ChannelTest, CloseMayBeCalledAgainAndByBothEnds) {
  // Broken: teardown races crash the program at its exit.
  const JoiningThread a([&] { client_.close(); });
  const JoiningThread b([&] { server_.close(); });
  client_.close();
  server_.close();
  EXPECT_FALSE(client_.flush());
}

TEST_P(ChannelTest, WaitEndsAtTheDeadlineWhenNothingComes) {
  // Broken: heartbeats and flush timers of the shim stop, or its service thread spins.
  const Deadline deadline = Clock::now() + std::chrono::milliseconds(5);
  const Result<bool> later = client_.wait(deadline);
  ASSERT_TRUE(later);
  EXPECT_FALSE(*later);
  EXPECT_GE(Clock::now(), deadline);
  for (const Deadline past : {Deadline::min(), Deadline{}, Clock::now()}) {
    const Result<bool> at_once = client_.wait(past);
    ASSERT_TRUE(at_once);
    EXPECT_FALSE(*at_once);
  }
}

TEST_P(ChannelTest, WaitWithoutADeadlineEndsWhenBytesArrive) {
  // Broken: a call's answer is there, but its thread sleeps.
  const JoiningThread sender([&] {
    const std::span<std::byte> space = server_.reserve(64);
    fill_pattern(0, space);
    server_.commit(64, FlushHint::kNow);
  });
  const Result<bool> is_ready = client_.wait(Deadline::max());
  ASSERT_TRUE(is_ready);
  EXPECT_TRUE(*is_ready);
  PatternSink sink;
  EXPECT_TRUE(receive(client_, sink, 64));
  EXPECT_TRUE(sink.is_intact());
}

TEST_P(ChannelTest, WriteThroughFollowsWhatWasCommittedBefore) {
  // Broken: a copy's payload overtakes the record that announces it.
  std::vector<std::byte> payload(700'000);
  fill_pattern(100, payload);
  const JoiningThread sender([&] {
    fill_pattern(0, client_.reserve(100));
    client_.commit(100, FlushHint::kNone);
    EXPECT_EQ(client_.unflushed_bytes(), 100U);
    EXPECT_TRUE(client_.write_through(payload));
    EXPECT_EQ(client_.unflushed_bytes(), 0U);
  });
  PatternSink sink;
  EXPECT_TRUE(receive(server_, sink, 100 + payload.size()));
  EXPECT_TRUE(sink.is_intact());
}

TEST_P(ChannelTest, RefusesAReserveOverTheMaximumAndLivesOn) {
  // Broken: one oversized record ends a session, or overwrites memory.
  const std::size_t max = client_.caps().reserve_bytes_max;
  EXPECT_TRUE(client_.reserve(max + 1).empty());
  EXPECT_TRUE(client_.flush());
  const JoiningThread sender([&] {
    const std::span<std::byte> space = client_.reserve(max);
    ASSERT_EQ(space.size(), max);
    fill_pattern(0, space);
    client_.commit(max, FlushHint::kNow);
  });
  PatternSink sink;
  EXPECT_TRUE(receive(server_, sink, max));
  EXPECT_TRUE(sink.is_intact());
}

TEST_P(ChannelTest, ManySmallCommitsArriveWithOneFlush) {
  // Broken: posted calls are lost or torn when a batch fills up.
  constexpr std::uint64_t kCount = 30'000;
  const JoiningThread sender([&] {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const std::span<std::byte> space = client_.reserve(64);
      ASSERT_EQ(space.size(), 64U);
      fill_pattern(i * 7, space.first(7));  // less than was reserved
      client_.commit(7, FlushHint::kNone);
    }
    EXPECT_GT(client_.unflushed_bytes(), 0U);
    EXPECT_TRUE(client_.flush());
  });
  PatternSink sink;
  EXPECT_TRUE(receive(server_, sink, kCount * 7));
  EXPECT_TRUE(sink.is_intact());
}

TEST_P(ChannelTest, UnflushedBytesStayHereUntilTheFlush) {
  // Broken: batching sends each record alone and every posted call costs a system call.
  fill_pattern(0, client_.reserve(64));
  client_.commit(64, FlushHint::kNone);
  PatternSink sink;
  const Result<std::size_t> before = server_.poll(sink, 1024);
  ASSERT_TRUE(before);
  EXPECT_EQ(*before, 0U);
  ASSERT_TRUE(client_.flush());
  EXPECT_TRUE(receive(server_, sink, 64));
}

TEST_P(ChannelTest, TheErrorOfTheSinkComesBackFromPoll) {
  // Broken: a protocol error found by the reader goes unnoticed.
  class Refusing final : public RecvSink {
    Status on_bytes(std::span<const std::byte>) override {
      return fail(ErrorCode::kProtocol, "bad record");
    }
  } sink;
  fill_pattern(0, client_.reserve(64));
  client_.commit(64, FlushHint::kNow);
  ASSERT_TRUE(server_.wait(far()).value_or(false));
  const Result<std::size_t> got = server_.poll(sink, 1024);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kProtocol);
}

TEST_P(ChannelTest, WaitFdIsReadableOnlyWhenPollHasSomethingToDo) {
  // Broken: an event loop around many channels sleeps through work, or spins.
  const int fd = server_.wait_fd();
  if (fd < 0) GTEST_SKIP() << "this kind has no descriptor";
  pollfd p{fd, POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 0), 0);
  fill_pattern(0, client_.reserve(64));
  client_.commit(64, FlushHint::kNow);
  EXPECT_EQ(::poll(&p, 1, 60'000), 1);
  PatternSink sink;
  EXPECT_TRUE(receive(server_, sink, 64));
  EXPECT_EQ(::poll(&p, 1, 0), 0);
  client_.close();
  EXPECT_EQ(::poll(&p, 1, 60'000), 1);
}

TEST_P(ChannelTest, NamesItselfAndItsLimits) {
  // Broken: statistics show the wrong transport.
  const Caps caps = client_.caps();
  const bool is_encrypted = GetParam().starts_with("tcp_tls");
  EXPECT_TRUE(is_encrypted ? std::string_view(caps.name) == "tcp+tls"
                           : GetParam().starts_with(caps.name))
      << caps.name;
  EXPECT_GE(caps.reserve_bytes_max, std::size_t{16 * 1024});
  EXPECT_EQ(caps.same_host, !GetParam().starts_with("tcp") && std::string_view(caps.name) != "ucx");
  EXPECT_EQ(caps.encrypted, is_encrypted);
}

const auto kName = [](const auto& kind) { return kind.param; };
INSTANTIATE_TEST_SUITE_P(Kinds, ChannelTest,
                         ::testing::Values("loop", "unix", "tcp", "tcp_tls", "tcp_resumable",
                                           "tcp_tls_resumable", "shm", "loop_faulty", "unix_faulty",
                                           "tcp_faulty", "tcp_tls_faulty", "tcp_resumable_faulty",
                                           "tcp_tls_resumable_faulty", "shm_faulty",
                                           "unix_emulated", "tcp_emulated", "tcp_emulated_faulty"),
                         kName);

INSTANTIATE_TEST_SUITE_P(Ucx, ChannelTest, ::testing::ValuesIn(ucx_kinds()), kName);

std::vector<std::string> uring_kinds() {
  auto sockets = make_sockets("unix");
  if (!uring::make_uring_stream(std::move(sockets[0]), uring::Receivers::kAnyThread)) return {};
  return {"unix_uring", "tcp_uring", "tcp_uring_faulty"};
}
/// Without io_uring (an old kernel, a container) there is nothing to conform.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ChannelTest);
INSTANTIATE_TEST_SUITE_P(Uring, ChannelTest, ::testing::ValuesIn(uring_kinds()), kName);

}  // namespace
}  // namespace sluice::transport::testing
