// io_uring where it may be used and where it may not.
#include "joining_thread.h"
#include "pairs.h"
#include "transport/uring/uring_stream.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>

namespace sluice::transport::testing {
namespace {

using uring::Receivers;

/// For the calling thread and for good: that system call fails with `error`, as under a container's
/// profile.
bool forbid(long call, unsigned error) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof code / sizeof *code, code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool has_io_uring() {
  auto sockets = make_sockets("unix");
  return uring::make_uring_stream(std::move(sockets[0]), Receivers::kAnyThread).has_value();
}

TEST(Uring, WhereItIsForbiddenTheSocketServesInItsPlace) {
  // Broken: in a container the server refuses every session, or loses its first bytes. Setup works
  // in some and a later step does not.
  for (const auto& [call, error] :
       {std::pair{long{SYS_io_uring_setup}, EPERM}, std::pair{long{SYS_io_uring_setup}, ENOSYS},
        std::pair{long{SYS_io_uring_register}, EPERM},
        std::pair{long{SYS_io_uring_enter}, EPERM}}) {
    bool is_forbidden = false;
    const JoiningThread thread([&, call = call, error = error] {
      auto sockets = make_sockets("unix");
      ASSERT_EQ(::send(sockets[0].get(), "early", 5, 0), 5);
      is_forbidden = forbid(call, static_cast<unsigned>(error));
      if (!is_forbidden) return;
      Fd socket = std::move(sockets[1]);
      const auto refused = uring::make_uring_stream(std::move(socket), Receivers::kOneThread);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, ErrorCode::kSystem);
      EXPECT_NE(refused.error().message.find("io_uring"), std::string::npos);
      ASSERT_TRUE(socket.valid()) << "the socket is still the caller's";
      const auto stream =
          uring::make_uring_or_socket_stream(std::move(socket), Receivers::kOneThread);
      std::byte bytes[16];
      EXPECT_EQ(stream->receive_some(bytes).value_or(0), 5U);
    });
  }
}

TEST(Uring, ServesTheThreadThatMadeItInItsFastestMode) {
  // Broken: the mode that the worker uses differs from the one that the suite checks.
  if (!has_io_uring()) GTEST_SKIP() << "this host has no io_uring";
  auto sockets = make_sockets("tcp");
  auto made = uring::make_uring_stream(std::move(sockets[1]), Receivers::kOneThread);
  ASSERT_TRUE(made) << made.error().message;
  const auto server = make_stream_channel(std::move(*made));
  const auto client = make_socket_channel(std::move(sockets[0]));
  constexpr std::uint64_t kBytes = 20'000'000;
  const JoiningThread sender([&] {
    std::vector<std::byte> bytes(kBytes);
    fill_pattern(0, bytes);
    EXPECT_TRUE(client->write_through(bytes));
    client->close();
  });
  PatternSink sink;
  EXPECT_EQ(receive_to_end(*server, sink).code, ErrorCode::kPeerClosed);
  EXPECT_EQ(sink.received(), kBytes);
  EXPECT_TRUE(sink.is_intact());
}

TEST(Uring, ItsFastestModeKeepsDeadlinesAndWakes) {
  if (!has_io_uring()) GTEST_SKIP() << "this host has no io_uring";
  auto sockets = make_sockets("tcp");
  auto stream =
      std::move(uring::make_uring_stream(std::move(sockets[1]), Receivers::kOneThread).value());
  const auto deadline = Clock::now() + std::chrono::milliseconds(5);
  EXPECT_FALSE(stream->wait(ByteStream::For::kReceive, deadline).value());
  EXPECT_GE(Clock::now(), deadline);
  const JoiningThread closer([&] { stream->close(); });
  EXPECT_TRUE(stream->wait(ByteStream::For::kReceive, far()).value());
  std::byte bytes[16];
  EXPECT_EQ(stream->receive_some(bytes).error().code, ErrorCode::kPeerClosed);
}

}  // namespace
}  // namespace sluice::transport::testing
