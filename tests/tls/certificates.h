// Certificates of a test: a CA, a server at 127.0.0.1 and "localhost", and whatever else it needs.
#pragma once

#include "tools/sluicectl/cert/authority.h"
#include "transport/tls/tls.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice::test {

class Certificates {
 public:
  Certificates() {
    char name[] = "/tmp/sluice-tls.XXXXXX";
    folder_ = ::mkdtemp(name);
    authority_ = must(cert::make_authority("Test CA", kValid));
    save(authority_, "ca");
    save(must(cert::issue_server(authority_, {"127.0.0.1", "localhost"}, kValid)), "server");
  }
  ~Certificates() { std::filesystem::remove_all(folder_); }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  static constexpr cert::Validity kValid{.until = cert::Days(1)};
  static constexpr cert::Validity kExpired{.from = std::chrono::seconds(-7200),
                                           .until = std::chrono::seconds(-3600)};

  template <class T>
  static T must(Result<T> result) {
    if (result) return std::move(*result);
    ADD_FAILURE() << result.error().message;
    std::abort();
  }
  [[nodiscard]] const cert::Pair& authority() const { return authority_; }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }
  void save(const cert::Pair& pair, const std::string& name) {
    ASSERT_TRUE(cert::save(pair, file(name + ".crt"), file(name + ".key"), true));
  }
  void make_client(const std::string& tenant) {
    save(must(cert::issue_client(authority_, tenant, kValid)), tenant);
  }
  /// A CA of somebody else, and a certificate by it for a tenant of ours.
  void make_other_authority() {
    const auto other = must(cert::make_authority("Other CA", kValid));
    save(other, "other-ca");
    save(must(cert::issue_client(other, "good", kValid)), "other-client");
  }

  [[nodiscard]] transport::tls::ServerSettings server(bool with_client_ca = false) const {
    return {file("server.crt"), file("server.key"), with_client_ca ? file("ca.crt") : "", false};
  }
  [[nodiscard]] transport::tls::ClientSettings client(const std::string& host = "127.0.0.1",
                                                      const std::string& own = "") const {
    if (own.empty()) return {file("ca.crt"), "", "", host};
    return {file("ca.crt"), file(own + ".crt"), file(own + ".key"), host};
  }

 private:
  std::string folder_;
  cert::Pair authority_;
};

}  // namespace sluice::test
