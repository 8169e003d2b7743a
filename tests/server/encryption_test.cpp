// The broker and TLS: one listener for both kinds, no stranger who holds it up, and data
// connections that only the worker can judge.
#include "encryption_fixture.h"

#include <vector>

namespace sluice::server {
namespace {

TEST_F(Encryption, OneListenerServesBothKinds) {
  start();
  Peer plain = connect_tcp();
  plain.say(hello_of("good"));
  EXPECT_TRUE(plain.hear_a<wire::Welcome>());
  const auto secure = open_encrypted("good");
  EXPECT_NE(secure.welcome.feature_bits & wire::kFeatureTls, 0u);
  EXPECT_EQ(session_count(), 2u);
}

TEST_F(Encryption, AnEncryptedSessionLivesAsLongAsItsLifeLineAndAnswersPings) {
  start();
  auto session = open_encrypted("good");
  for (std::uint64_t number = 1; number < 200; ++number)
    ASSERT_TRUE(wire::write_frame_to(*session.life_line, wire::Ping{number}));
  for (std::uint64_t number = 1; number < 200; ++number) {
    const auto answer = wire::read_frame_from(*session.life_line, far());
    ASSERT_TRUE(answer) << answer.error().message;
    ASSERT_EQ(std::get<wire::Pong>(*answer).number, number);
  }
  EXPECT_EQ(session_count(), 1u);
  session.life_line.reset();
  EXPECT_TRUE(eventually([&] { return session_count() == 0; }));
}

TEST_F(Encryption, AHandshakeThatStallsEndsAtTheDeadlineOfAHello) {
  times_.hello = 50ms;
  start();
  Peer silent = connect_tcp();
  // The first bytes of a ClientHello, and no more.
  ASSERT_EQ(::send(silent.fd.get(), "\x16\x03\x01\x02\x00\x01", 6, MSG_NOSIGNAL), 6);
  EXPECT_TRUE(silent.is_closed());
  auto idle = connect_tls();  // who says nothing after the handshake is no better
  ASSERT_TRUE(idle);
  EXPECT_EQ(wire::read_frame_from(**idle, far()).error().code, ErrorCode::kPeerClosed);
}

TEST_F(Encryption, StalledHandshakesDoNotKeepOthersOut) {
  start();
  std::vector<Peer> stalled;
  for (int i = 0; i < 100; ++i) {
    stalled.push_back(connect_tcp());
    ASSERT_EQ(::send(stalled.back().fd.get(), "\x16\x03\x01\x02\x00\x01", 6, MSG_NOSIGNAL), 6);
  }
  EXPECT_TRUE(stalled[0].is_closed()) << "the oldest goes";
  open_encrypted("good");
}

TEST_F(Encryption, GarbageInsteadOfAHandshakeEndsThatConnectionOnly) {
  start();
  Peer stranger = connect_tcp();
  const std::string garbage = "\x16\x03\x01" + std::string(2000, 'x');
  ASSERT_GT(::send(stranger.fd.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  while (::recv(stranger.fd.get(), std::string(100, 0).data(), 100, 0) > 0) {
  }  // an alert, perhaps; then the end
  open_encrypted("good");
}

TEST_F(Encryption, WrongAndRevokedTokensAreRefused) {
  config_.tenants[1].token_hash.reset();
  start();
  auto first = connect_tls(), second = connect_tls();
  ASSERT_TRUE(first && second);
  EXPECT_NE(refusal_in(ask_over(**first, hello_of("good", "wrong"))).find("wrong token"),
            std::string::npos);
  EXPECT_NE(refusal_in(ask_over(**second, hello_of("other"))).find("wrong token"),
            std::string::npos);
}

TEST_F(Encryption, ACertificateStandsForItsTenantAndForNoOther) {
  files_.make_client("good");
  start();
  auto as_itself = connect_tls("good"), without_name = connect_tls("good"),
       as_other = connect_tls("good");
  ASSERT_TRUE(as_itself && without_name && as_other);
  for (const auto& [stream, tenant] : {std::pair{&as_itself, "good"}, std::pair{&without_name, ""}})
    EXPECT_EQ(refusal_in(ask_over(***stream, hello_of(tenant, ""))), "");
  EXPECT_NE(refusal_in(ask_over(**as_other, hello_of("other", kToken))).find("belongs to tenant"),
            std::string::npos);
}

TEST_F(Encryption, WhenItIsRequiredPlainTcpIsRefusedWithWhatToSet) {
  config_.require_encryption = true;
  start();
  Peer plain = connect_tcp();
  plain.say(hello_of("good"));
  const auto refusal = plain.hear_a<wire::Refusal>();
  ASSERT_TRUE(refusal);
  EXPECT_NE(refusal->message.find("SLUICE_TLS_CA"), std::string::npos) << refusal->message;
  open("good");  // over the UNIX socket
  open_encrypted("good");
  // A session from this host must not be continued in the clear either.
  const Peer local = greet(hello_of("good"));
  const auto welcome = local.hear_a<wire::Welcome>();
  ASSERT_TRUE(welcome);
  Peer data = connect_tcp();
  data.say(wire::Attach{welcome->session_key});
  EXPECT_TRUE(data.hear_a<wire::Refusal>());
}

// ---- data connections

TEST_F(Encryption, TheDataConnectionIsHandedToTheWorkerWithoutAKey) {
  start();
  const auto session = open_encrypted("good");
  const Peer data = attach(session.welcome.session_id);
  EXPECT_TRUE(data.hear_a<wire::Attached>());
  EXPECT_EQ(data.command('r'), 'r') << "the fake worker asks for no proof";
}

TEST_F(Encryption, AStrangerWithTheSessionsNumberDoesNotTakeTheOwnersPlace) {
  start();
  const auto session = open_encrypted("wary");
  const Peer stranger = attach(session.welcome.session_id);
  EXPECT_TRUE(stranger.hear_a<wire::Attached>());
  EXPECT_TRUE(stranger.is_closed()) << "the worker did not believe it";
  const Peer owner = attach(session.welcome.session_id);
  EXPECT_TRUE(owner.hear_a<wire::Attached>());
  EXPECT_EQ(owner.command('r'), 'r');
  EXPECT_TRUE(attach(session.welcome.session_id).is_closed()) << "now nobody is waited for";
  EXPECT_EQ(owner.command('r'), 'r');
}

TEST_F(Encryption, AStrangerWhoIsNotBelievedDoesNotCountAsTheDataConnection) {
  times_.attach = 100ms;
  start();
  const auto session = open_encrypted("wary");
  const Peer stranger = attach(session.welcome.session_id);
  EXPECT_TRUE(stranger.hear_a<wire::Attached>());
  EXPECT_TRUE(eventually([&] { return session_count() == 0; })) << "its time to attach is over";
}

TEST_F(Encryption, OnlyAnEncryptedSessionTakesEncryptedDataAndItTakesNoOther) {
  start();
  const Peer life_line = greet(hello_of("good"));
  const auto plain = life_line.hear_a<wire::Welcome>();
  ASSERT_TRUE(plain);
  EXPECT_TRUE(attach(plain->session_id).is_closed());
  const auto session = open_encrypted("good");
  Peer in_the_clear = connect_tcp();
  in_the_clear.say(wire::Attach{session.welcome.session_key});
  EXPECT_TRUE(in_the_clear.is_closed()) << "a key that anybody could have read there proves little";
  EXPECT_TRUE(attach(4711).is_closed());
}

TEST_F(Encryption, ReloadingTakesRenewedFilesAndKeepsTheOldOnesIfTheNewAreBad) {
  reload_ = [this]() -> Result<config::Config> { return config_; };
  start();
  const auto reload = [this] { return ask([](Broker& b) { return b.reload(); }); };
  const auto renewed = test::Certificates::must(cert::issue_server(
      files_.authority(), {"renewed.example", "127.0.0.1"}, test::Certificates::kValid));
  files_.save(renewed, "server");
  ASSERT_TRUE(reload());
  auto settings = files_.client("renewed.example");
  EXPECT_TRUE(tls::linked_library().connect(connect_tcp().fd, settings, far()));
  std::ofstream(files_.file("server.crt")) << "nothing\n";
  EXPECT_FALSE(reload());
  EXPECT_TRUE(tls::linked_library().connect(connect_tcp().fd, settings, far()));
}

}  // namespace
}  // namespace sluice::server
