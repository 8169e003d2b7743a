// [tls] and require_encryption: an administrator cannot open a server to the network by accident.
#include "server/config/config.h"
#include "tests/tls/certificates.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::config {
namespace {

class TlsConfig : public ::testing::Test {
 protected:
  /// What is wrong with such a file; empty: nothing.
  std::string problem(const std::string& server, const std::string& tls,
                      const std::string& tenant = "token_sha256 = \"" + hash_text({}) + "\"") {
    const std::string text = "[server]\n" + server + "\n" +
                             (tls.empty() ? "" : "[tls]\n" + tls + "\n") +
                             "[[tenant]]\nname = \"t\"\n" + tenant + "\n";
    auto config = parse(text, "f.toml");
    if (!config) return config.error().message;
    const Status checked = check(*config);
    return checked ? "" : checked.error().message;
  }
  [[nodiscard]] std::string pair() const {
    return "certificate = \"" + files_.file("server.crt") + "\"\nkey = \"" +
           files_.file("server.key") + "\"\n";
  }
  [[nodiscard]] std::string client_ca() const {
    return "client_ca = \"" + files_.file("ca.crt") + "\"\n";
  }
  static void expect_words(const std::string& text, std::initializer_list<const char*> words) {
    for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
  }

  test::Certificates files_;
  const std::string network_ = "listen = [\"0.0.0.0:7627\"]", near_ = "listen = [\"127.0.0.1:0\"]";
};

TEST_F(TlsConfig, ACertificateOpensTheNetworkAndNothingElseDoesUnasked) {
  EXPECT_EQ(problem(near_, ""), "");
  expect_words(problem(network_, ""), {"0.0.0.0:7627", "[tls]", "sluicectl cert init"});
  EXPECT_EQ(problem(network_, pair()), "");
  EXPECT_EQ(problem(network_ + "\nallow_plaintext_network = true", ""), "");
}

TEST_F(TlsConfig, RequiredEncryptionNeedsACertificateForEveryTcpAddress) {
  const std::string required = "\nrequire_encryption = true";
  expect_words(problem(near_ + required, ""), {"127.0.0.1", "certificate and key"});
  EXPECT_EQ(problem(near_ + required, pair()), "");
  EXPECT_EQ(problem("listen = [\"unix:/run/s\"]" + required, ""), "");
}

TEST_F(TlsConfig, HalfOfACertificateAndFilesThatCannotBeUsedAreRefused) {
  expect_words(problem(near_, "certificate = \"c\""), {"go together"});
  expect_words(problem(near_, "certificate = \"/nowhere\"\nkey = \"/nowhere\""), {"/nowhere"});
  expect_words(problem(near_, client_ca()), {"client_ca"});
  expect_words(problem(near_, pair() + "require_client_certificate = true"), {"client_ca"});
  expect_words(problem(near_, "certificat = \"c\""), {"did you mean \"certificate\""});
}

TEST_F(TlsConfig, ATenantMayHaveNoTokenIfCertificatesLetItIn) {
  EXPECT_EQ(problem(near_, pair() + client_ca(), ""), "");
  expect_words(problem(near_, pair(), ""), {"token_sha256 or token_file"});
}

TEST(Token, IsComparedByEveryByteOfItsHash) {
  const TokenHash hash = hash_token("a token");
  EXPECT_TRUE(is_same_hash(hash, hash_token("a token")));
  for (std::size_t i = 0; i < hash.size(); ++i) {
    TokenHash other = hash;
    other[i] ^= 1;
    EXPECT_FALSE(is_same_hash(hash, other)) << i;
  }
}

}  // namespace
}  // namespace sluice::config
