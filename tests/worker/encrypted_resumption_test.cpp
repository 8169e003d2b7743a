// The data connections of an encrypted session are replaced by whoever has the key, and by nobody
// else, whatever comes to the door.
#include "protocol/session_secret.h"
#include "protocol/stream_frames.h"
#include "server/worker/resumption.h"
#include "tests/tls/ends.h"
#include "transport/resume/handover.h"
#include "transport/stream/stream_io.h"

#include <sys/socket.h>

#include <vector>

namespace sluice::server {
namespace {

using namespace std::chrono_literals;
using test::far;
using transport::ByteStream;
using transport::ResumableStream;
namespace tls = transport::tls;

struct Text final : transport::RecvSink {
  Status on_bytes(std::span<const std::byte> bytes) override {
    received.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  std::string received;
};

class EncryptedResumption : public ::testing::Test {
 protected:
  explicit EncryptedResumption(std::uint8_t lane_count = 0)
      : lane_count_(lane_count), resumption_(SessionProof{7, secret_.key}) {
    transport::Lanes servers;
    for (std::uint8_t lane = 0; lane <= lane_count_; ++lane) {
      auto ends = test::open_ends(test::with_secret(tls::Role::kClient, secret_of(lane)),
                                  test::with_secret(tls::Role::kServer, secret_of(lane)));
      clients_.push_back(std::make_unique<ResumableStream>(std::move(*ends.client), true));
      servers.push_back(std::move(*ends.server));
    }
    auto records = std::move(servers.front());
    servers.erase(servers.begin());
    channel_ = resumption_.open(std::move(records), std::move(servers), true);
  }
  [[nodiscard]] tls::SessionSecret secret_of(std::uint8_t lane) const {
    return test::secret_of(wire::secret_identity(7, lane, lane_count_), 0x42);
  }
  /// The other end of a connection that the worker was handed.
  Fd offer(bool is_encrypted = true, std::uint8_t lane = 0) {
    auto sockets = test::tcp_pair();
    resumption_.take(std::move(sockets[1]), {.is_encrypted = is_encrypted, .lane = lane});
    return std::move(sockets[0]);
  }
  static wire::Resume resume_of(std::uint64_t attempt, std::uint8_t lane = 0) {
    return {.session_id = 7,
            .line = wire::Resume::Line::kData,
            .attempt = attempt,
            .lane = lane,
            .is_encrypted = 1};
  }
  /// The key is proved, and the attempt named where nobody else can.
  std::unique_ptr<ByteStream> prove(std::uint64_t attempt, std::uint8_t lane = 0) {
    auto stream = test::Certificates::must(
        tls::linked_library().connect_session(offer(true, lane), secret_of(lane), far()));
    EXPECT_TRUE(wire::write_frame_to(*stream, resume_of(attempt, lane)));
    return stream;
  }
  void resume(std::uint64_t attempt, std::uint8_t lane = 0) {
    clients_[lane]->suspend();
    auto next = prove(attempt, lane);
    const Status done = transport::resume_from_client(*clients_[lane], next, far());
    ASSERT_TRUE(done) << done.error().message;
  }
  void say(const std::string& text) { ASSERT_TRUE(test::send_text(*clients_[0], text)); }
  std::string hear(std::size_t bytes) {
    Text text;
    while (text.received.size() < bytes) {
      const auto got = channel_->poll(text, 1000);
      if (!got) return got.error().message;
      if (*got == 0 && !channel_->wait(far()).value_or(false)) return "nothing arrived";
    }
    return text.received;
  }
  void expect_in_use(const std::string& text) {
    say(text);
    EXPECT_EQ(hear(text.size()), text);
  }
  static bool is_closed(const Fd& fd) {
    std::byte bytes[1000];
    for (;;) {
      if (!transport::wait_on(fd.get(), ByteStream::For::kReceive, far()).value_or(false))
        return false;
      if (::recv(fd.get(), bytes, sizeof bytes, 0) <= 0) return true;  // an alert may come before
    }
  }

  const tls::SessionSecret secret_ = test::secret_of("7", 0x42);
  const std::uint8_t lane_count_;
  std::vector<std::unique_ptr<ResumableStream>> clients_;
  std::unique_ptr<transport::Channel> channel_;
  Resumption resumption_;  // ends before the channel
};

TEST_F(EncryptedResumption, TheSessionGoesOnOverAnotherConnection) {
  say("before,");
  resume(1);
  say("after");
  EXPECT_EQ(hear(12), "before,after");
  EXPECT_TRUE(channel_->caps().encrypted);
}

TEST_F(EncryptedResumption, AnAttemptThatSaysNothingMoreIsSupersededByTheNext) {
  say("before,");
  clients_[0]->suspend();
  const auto silent = prove(1);
  resume(2);
  say("after");
  EXPECT_EQ(hear(12), "before,after");
}

TEST_F(EncryptedResumption, AnOlderAttemptThatArrivesLateIsClosed) {
  // Broken: somebody holds back an attempt, and lets it take the session away later.
  resume(5);
  for (const std::uint64_t attempt : {4u, 5u}) {
    const auto late = prove(attempt);
    EXPECT_EQ(test::receive(*late).error().code, ErrorCode::kPeerClosed);
  }
  expect_in_use("still here");
}

TEST_F(EncryptedResumption, StrangersReachNothingWhileTheConnectionIsInUse) {
  // Broken: whoever knows the session's number stops it.
  std::vector<Fd> strangers;
  for (int i = 0; i < 40; ++i) {
    strangers.push_back(offer());
    const std::string words = i % 3 == 0 ? "" : i % 3 == 1 ? "GET / HTTP/1.1\r\n\r\n" : "\x16\x03";
    ASSERT_EQ(::send(strangers.back().get(), words.data(), words.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(words.size()));
  }
  EXPECT_FALSE(tls::linked_library().connect_session(offer(), test::secret_of("7", 0x41), far()));
  EXPECT_FALSE(tls::linked_library().connect_session(offer(), test::secret_of("8", 0x42), far()));
  expect_in_use("undisturbed");
  resume(1);
  expect_in_use("resumed all the same");
}

TEST_F(EncryptedResumption, WhoeverSaysNothingIsClosedInTheEnd) {
  const Fd silent = offer();
  EXPECT_TRUE(is_closed(silent));
  expect_in_use("undisturbed");
}

TEST_F(EncryptedResumption, WithoutSayingWhatItResumesEvenTheKeyOpensNothing) {
  auto silent =
      test::Certificates::must(tls::linked_library().connect_session(offer(), secret_, far()));
  auto wrong =
      test::Certificates::must(tls::linked_library().connect_session(offer(), secret_, far()));
  wire::Resume of_life_line = resume_of(9);
  of_life_line.line = wire::Resume::Line::kLifeLine;
  ASSERT_TRUE(wire::write_frame_to(*wrong, of_life_line));
  EXPECT_FALSE(test::receive(*wrong));
  EXPECT_FALSE(test::receive(*silent));
  expect_in_use("undisturbed");
  resume(1);
}

TEST_F(EncryptedResumption, WhatWasRecordedOpensNothing) {
  // Broken: whoever has listened to one attempt can make another.
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  Fd owner(ends[0]), listener(ends[1]);
  const int owner_fd = owner.get();
  auto engine =
      test::Certificates::must(tls::Engine::session(tls::Role::kClient, owner_fd, secret_));
  Fd worker = offer();
  std::string recorded;
  char piece[4096];
  for (bool is_done = false; !is_done;) {
    is_done = engine->handshake().value();
    if (is_done) {
      const auto frame = wire::encode_frame(resume_of(3));
      ASSERT_TRUE(engine->send_some(frame));
    }
    ssize_t got = ::recv(listener.get(), piece, sizeof piece, MSG_DONTWAIT);
    if (got > 0) recorded.append(piece, static_cast<std::size_t>(got));
    if (got > 0) {
      ASSERT_EQ(::send(worker.get(), piece, static_cast<std::size_t>(got), 0), got);
    }
    if (is_done) break;
    ASSERT_TRUE(transport::wait_on(worker.get(), ByteStream::For::kReceive, far()));
    got = ::recv(worker.get(), piece, sizeof piece, 0);
    ASSERT_GT(got, 0);
    ASSERT_EQ(::send(listener.get(), piece, static_cast<std::size_t>(got), 0), got);
  }
  resume(4);
  const Fd replay = offer();
  ASSERT_EQ(::send(replay.get(), recorded.data(), recorded.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(recorded.size()));
  EXPECT_TRUE(is_closed(replay));
  expect_in_use("undisturbed");
}

TEST_F(EncryptedResumption, APlainConnectionTakesNoEncryptedOnesPlace) {
  EXPECT_TRUE(is_closed(offer(false)));
  expect_in_use("undisturbed");
}

TEST_F(EncryptedResumption, ATamperedAnswerCostsThatAttemptOnly) {
  // Broken: garbage on a new connection ends the session that it was to save.
  say("before,");
  clients_[0]->suspend();
  Fd socket = offer();
  const int raw = socket.get();
  auto engine = test::Certificates::must(tls::Engine::session(tls::Role::kClient, raw, secret_));
  auto next = test::Certificates::must(tls::complete(std::move(socket), std::move(engine), far()));
  ASSERT_TRUE(wire::write_frame_to(*next, resume_of(1)));
  ASSERT_TRUE(test::receive(*next)) << "the worker's count";
  const std::string garbage(100, 'x');
  ASSERT_EQ(::send(raw, garbage.data(), garbage.size(), 0), 100);
  EXPECT_FALSE(test::receive(*next)) << "the worker gives it up";
  resume(2);
  say("after");
  EXPECT_EQ(hear(12), "before,after");
}

class EncryptedLanes : public EncryptedResumption {
 protected:
  EncryptedLanes() : EncryptedResumption(2) {}
  /// What comes next on a lane.
  std::string hear_on(std::uint8_t lane, std::size_t bytes) {
    std::string text(bytes, ' ');
    const auto end = far();
    const Status done = transport::receive_all(
        *channel_->lanes()[lane - 1U], std::as_writable_bytes(std::span(text)), [&]() -> Status {
          if (transport::Clock::now() < end) return {};
          return fail(ErrorCode::kTimeout, "nothing arrived");
        });
    return done ? text : done.error().message;
  }
};

TEST_F(EncryptedLanes, EachIsReplacedByWhoeverProvesToBeIt) {
  // Broken: two lanes are cut, and the data of one copy ends up in another.
  for (const std::uint8_t lane : std::initializer_list<std::uint8_t>{1, 2}) {
    ASSERT_TRUE(test::send_text(*clients_[lane], "before,"));
    clients_[lane]->suspend();
  }
  resume(1, 2);
  resume(2, 1);
  ASSERT_TRUE(test::send_text(*clients_[1], "one"));
  ASSERT_TRUE(test::send_text(*clients_[2], "two"));
  EXPECT_EQ(hear_on(1, 10), "before,one");
  EXPECT_EQ(hear_on(2, 10), "before,two");
  expect_in_use("and the records were never cut");
}

TEST_F(EncryptedLanes, OneThatSomebodyOnTheWayRenamedTakesNoPlace) {
  // Broken: whoever can change the frames in the clear swaps the data of two copies.
  EXPECT_FALSE(tls::linked_library().connect_session(offer(true, 2), secret_of(1), far()));
  EXPECT_FALSE(tls::linked_library().connect_session(offer(true, 0), secret_of(1), far()));
  auto wrong = test::Certificates::must(
      tls::linked_library().connect_session(offer(true, 1), secret_of(1), far()));
  ASSERT_TRUE(wire::write_frame_to(*wrong, resume_of(9, 2)));
  EXPECT_FALSE(test::receive(*wrong)) << "the frame inside names another one";
  EXPECT_TRUE(is_closed(offer(true, 3))) << "there is no such lane";
  for (const std::uint8_t lane : std::initializer_list<std::uint8_t>{1, 2}) {
    ASSERT_TRUE(test::send_text(*clients_[lane], "undisturbed"));
    EXPECT_EQ(hear_on(lane, 11), "undisturbed");
  }
}

TEST_F(EncryptedLanes, EachHasAttemptsOfItsOwn) {
  resume(5, 0);
  resume(4, 1);
  ASSERT_TRUE(test::send_text(*clients_[1], "resumed"));
  EXPECT_EQ(hear_on(1, 7), "resumed");
  const auto late = prove(4, 1);
  EXPECT_EQ(test::receive(*late).error().code, ErrorCode::kPeerClosed);
}

}  // namespace
}  // namespace sluice::server
