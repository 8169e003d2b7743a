// Data connections: the session's key opens them, and nothing else does.
#include "tests/tls/ends.h"

namespace sluice::test {
namespace {

using tls::Role;

TEST(SessionTls, WhoKnowsTheKeyGetsTheConnection) {
  const auto secret = secret_of("7", 0x42);
  const auto ends =
      open_ends(with_secret(Role::kClient, secret), with_secret(Role::kServer, secret));
  ASSERT_TRUE(ends.client) << ends.client.error().message;
  ASSERT_TRUE(ends.server) << ends.server.error().message;
  ASSERT_TRUE(send_text(**ends.client, "records"));
  EXPECT_EQ(receive(**ends.server).value_or("nothing"), "records");
}

TEST(SessionTls, AnotherKeyOpensNothingOnEitherSide) {
  const auto ends = open_ends(with_secret(Role::kClient, secret_of("7", 1)),
                              with_secret(Role::kServer, secret_of("7", 2)));
  EXPECT_FALSE(ends.client);
  EXPECT_FALSE(ends.server);
}

TEST(SessionTls, TheKeyOfAnotherSessionOpensNothing) {
  const auto ends = open_ends(with_secret(Role::kClient, secret_of("8", 1)),
                              with_secret(Role::kServer, secret_of("7", 1)));
  EXPECT_FALSE(ends.client);
  EXPECT_FALSE(ends.server);
}

TEST(SessionTls, ACertificateInsteadOfTheKeyIsNotBelieved) {
  // Broken: whoever sits on the network between takes the connection with any certificate.
  const Certificates files;
  const auto ends =
      open_ends(with_secret(Role::kClient, secret_of("7", 1)), accepting(files.server()));
  ASSERT_FALSE(ends.client);
  EXPECT_NE(ends.client.error().message.find("refused"), std::string::npos)
      << ends.client.error().message;
}

TEST(SessionTls, AClientWithoutAKeyIsNotServed) {
  const Certificates files;
  const auto ends =
      open_ends(connecting(files.client()), with_secret(Role::kServer, secret_of("7", 1)));
  EXPECT_FALSE(ends.client);
  EXPECT_FALSE(ends.server);
}

}  // namespace
}  // namespace sluice::test
