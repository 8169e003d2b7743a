// Who gets a connection and who does not, and that each failure says what to do.
#include "tests/tls/ends.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <fstream>

namespace sluice::test {
namespace {

class Handshake : public ::testing::Test {
 protected:
  /// The client's error.
  static std::string failure(const Ends& ends) {
    EXPECT_FALSE(ends.client);
    return ends.client ? "" : ends.client.error().message;
  }
  static void expect_traffic(const Ends& ends) {
    ASSERT_TRUE(ends.client) << ends.client.error().message;
    ASSERT_TRUE(ends.server) << ends.server.error().message;
    ASSERT_TRUE(send_text(**ends.client, "ping"));
    EXPECT_EQ(receive(**ends.server).value_or("nothing"), "ping");
    ASSERT_TRUE(send_text(**ends.server, "pong"));
    EXPECT_EQ(receive(**ends.client).value_or("nothing"), "pong");
    EXPECT_TRUE((*ends.client)->kind().encrypted);
  }
  static void expect_words(const std::string& text, std::initializer_list<const char*> words) {
    for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
  }

  Certificates files_;
};

TEST_F(Handshake, AServerWithTheRightCertificateIsTrustedByAddressAndByName) {
  for (const char* host : {"127.0.0.1", "localhost"})
    expect_traffic(open_ends(connecting(files_.client(host)), accepting(files_.server())));
}

TEST_F(Handshake, ACertificateOfAnotherCaIsRefusedAndTheCaFileNamed) {
  files_.make_other_authority();
  auto settings = files_.client();
  settings.ca_file = files_.file("other-ca.crt");
  const auto text = failure(open_ends(connecting(settings), accepting(files_.server())));
  expect_words(text, {"other-ca.crt", "SLUICE_TLS_CA"});
}

TEST_F(Handshake, WithoutACaFileACertificateThatTheSystemDoesNotKnowIsRefused) {
  auto settings = files_.client();
  settings.ca_file = "";
  const auto text = failure(open_ends(connecting(settings), accepting(files_.server())));
  expect_words(text, {"no CA that this machine trusts", "SLUICE_TLS_CA"});
}

TEST_F(Handshake, AnExpiredCertificateIsRefusedWithItsDate) {
  files_.save(Certificates::must(
                  cert::issue_server(files_.authority(), {"127.0.0.1"}, Certificates::kExpired)),
              "server");
  const auto text = failure(open_ends(connecting(files_.client()), accepting(files_.server())));
  expect_words(text, {"expired on 2", "sluicectl cert"});
}

TEST_F(Handshake, ACertificateForAnotherHostIsRefusedAndBothAreNamed) {
  for (const char* host : {"gpu.example", "10.1.2.3"}) {
    const auto text =
        failure(open_ends(connecting(files_.client(host)), accepting(files_.server())));
    expect_words(text, {host, "127.0.0.1, localhost", "--host"});
  }
}

TEST_F(Handshake, APeerThatSpeaksNoTlsIsSaidToSpeakNone) {
  const auto plain = [](Fd socket) -> StreamResult {
    EXPECT_EQ(::send(socket.get(), "SLCE plain old frames", 21, MSG_NOSIGNAL), 21);
    return transport::make_socket_stream(std::move(socket));
  };
  expect_words(failure(open_ends(connecting(files_.client()), plain)), {"does not speak it"});
}

TEST_F(Handshake, APeerThatEndsTheConnectionMayHaveNoCertificate) {
  const auto closing = [](Fd) -> StreamResult { return fail(ErrorCode::kInternal, "closed"); };
  expect_words(failure(open_ends(connecting(files_.client()), closing)), {"certificate", "[tls]"});
}

TEST_F(Handshake, APeerThatStaysSilentEndsAtTheDeadline) {
  auto sockets = tcp_pair();
  const auto outcome =
      tls::linked_library().connect(std::move(sockets[0]), files_.client(),
                                    transport::Clock::now() + std::chrono::milliseconds(20));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kTimeout);
}

TEST_F(Handshake, OlderVersionsOfTlsAreRefused) {
  // A ClientHello of TLS 1.2: record 3.1, handshake 3.3, no supported_versions.
  static constexpr unsigned char kHello[] = {0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3,    3,  //
                                             1,    2, 3, 4, 5,  6, 7, 8, 9,  1,    2,    3, 4,
                                             5,    6, 7, 8, 9,  1, 2, 3, 4,  5,    6,    7, 8,
                                             9,    1, 2, 3, 4,  5, 0, 0, 2,  0xC0, 0x2F, 1, 0};
  const auto old = [](Fd socket) -> StreamResult {
    EXPECT_EQ(::send(socket.get(), kHello, sizeof kHello, MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof kHello));
    return transport::make_socket_stream(std::move(socket));
  };
  const auto ends = open_ends(old, accepting(files_.server()));
  ASSERT_FALSE(ends.server);
  expect_words(ends.server.error().message, {"unsupported protocol"});
}

// ---- client certificates

TEST_F(Handshake, AClientCertificateNamesItsTenant) {
  files_.make_client("research");
  auto sockets = tcp_pair();
  const auto context = tls::make_server_context(files_.server(true));
  ASSERT_TRUE(context);
  auto engine = tls::Engine::server(*context, sockets[1].get());
  ASSERT_TRUE(engine);
  StreamResult client = fail(ErrorCode::kInternal, "");
  {
    const JoiningThread thread([&] {
      client = connecting(files_.client("127.0.0.1", "research"))(std::move(sockets[0]));
    });
    for (bool is_done = false; !is_done;) {
      const auto step = (*engine)->handshake();
      ASSERT_TRUE(step) << step.error().message;
      is_done = *step;
      if (is_done) break;
      ASSERT_TRUE(transport::wait_on(sockets[1].get(), ByteStream::For::kReceive, far()));
    }
  }
  EXPECT_EQ((*engine)->peer_tenant(), "research");
}

TEST_F(Handshake, AServerMayRequireACertificateAndTheClientLearnsSo) {
  auto settings = files_.server(true);
  settings.require_client_certificate = true;
  const auto ends = open_ends(connecting(files_.client()), accepting(settings));
  EXPECT_FALSE(ends.server);
  // In TLS 1.3 the client's handshake is over before the server looks at its certificate.
  const std::string text = ends.client ? receive(**ends.client).error().message : failure(ends);
  expect_words(text, {"SLUICE_TLS_CERT"});
}

TEST_F(Handshake, AClientCertificateOfAnotherCaIsRefused) {
  files_.make_other_authority();
  const auto ends = open_ends(connecting(files_.client("127.0.0.1", "other-client")),
                              accepting(files_.server(true)));
  ASSERT_FALSE(ends.server);
  expect_words(ends.server.error().message, {"the client's certificate (\"good\") is refused"});
}

TEST_F(Handshake, AServersCertificateDoesNotPassForATenants) {
  const auto ends =
      open_ends(connecting(files_.client("127.0.0.1", "server")), accepting(files_.server(true)));
  EXPECT_FALSE(ends.server) << "it is for a server only";
}

// ---- files

TEST_F(Handshake, FilesThatCannotBeUsedAreNamedWithTheReason) {
  std::ofstream(files_.file("empty")) << "nothing\n";
  auto settings = files_.server();
  settings.certificate_file = files_.file("missing");
  expect_words(tls::make_server_context(settings).error().message, {"missing", "No such file"});
  settings.certificate_file = files_.file("empty");
  expect_words(tls::make_server_context(settings).error().message, {"empty", "PEM"});
  settings = files_.server();
  settings.key_file = files_.file("ca.key");
  expect_words(tls::make_server_context(settings).error().message, {"ca.key", "key"});
  auto client = files_.client();
  client.ca_file = files_.file("missing");
  expect_words(tls::make_client_context(client).error().message, {"CA file", "missing"});
}

}  // namespace
}  // namespace sluice::test
