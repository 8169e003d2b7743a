// When a client encrypts, and that no token leaves the host in the clear.
#include "tests/tls/ends.h"
#include "transport/tls/client_choice.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

namespace sluice::test {
namespace {

using transport::Address;
using transport::Reach;
using transport::tls::ClientChoice;

/// An address of this machine that is not loopback; empty if it has none.
std::string network_address() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  std::string out;
  for (const ifaddrs* one = list; one != nullptr && out.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET ||
        (one->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text,
                sizeof text);
    out = text;
  }
  ::freeifaddrs(list);
  return out;
}

struct Connected {
  explicit Connected(const std::string& host)
      : listener(Certificates::must(transport::listen_socket(
            Certificates::must(transport::parse_address(host + ":0")), 0))),
        address(Certificates::must(transport::bound_address(
            Certificates::must(transport::parse_address(host + ":0")), listener.get()))),
        client(Certificates::must(transport::connect_socket(address, std::chrono::seconds(30)))) {}
  Fd listener;
  Address address;
  Fd client;
};

Result<const tls::Library*> no_library() {
  return fail(ErrorCode::kNotFound, "TLS was asked for");
}

/// "plain", or the words of the error.
std::string outcome(Connected at, const ClientChoice& choice, bool has_token) {
  const auto stream = transport::tls::open_control(std::move(at.client), at.address, choice,
                                                   has_token, no_library, far());
  return stream ? "plain" : stream.error().message;
}

TEST(TlsChoice, OnLoopbackItIsUsedWhenWantedOrWhenACaIsNamed) {
  EXPECT_EQ(outcome(Connected("127.0.0.1"), {}, true), "plain");
  EXPECT_EQ(outcome(Connected("127.0.0.1"), {.mode = "off", .ca_file = "ca"}, true), "plain");
  EXPECT_EQ(outcome(Connected("127.0.0.1"), {.mode = "on"}, true), "TLS was asked for");
  EXPECT_EQ(outcome(Connected("127.0.0.1"), {.ca_file = "ca"}, true), "TLS was asked for");
}

TEST(TlsChoice, OverTheNetworkItIsTheDefaultAndNoTokenGoesWithoutIt) {
  const std::string host = network_address();
  if (host.empty()) GTEST_SKIP() << "this machine has no address but loopback";
  EXPECT_EQ(outcome(Connected(host), {}, true), "TLS was asked for");
  EXPECT_EQ(outcome(Connected(host), {.mode = "auto"}, false), "TLS was asked for");
  EXPECT_NE(outcome(Connected(host), {.mode = "off"}, true).find("token"), std::string::npos);
  EXPECT_EQ(outcome(Connected(host), {.mode = "off"}, false), "plain") << "nothing to protect";
}

TEST(TlsChoice, AUnixSocketIsNoNetwork) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Fd one(ends[0]), other(ends[1]);
  EXPECT_EQ(transport::reach_of(one.get()), Reach::kUnix);
  EXPECT_FALSE(transport::tls::wants_tls({.mode = "on", .ca_file = "ca"}, one.get()).value());
}

TEST(TlsChoice, WhatCannotBeMeantIsRefused) {
  EXPECT_FALSE(transport::tls::check({.mode = "maybe"}));
  EXPECT_FALSE(transport::tls::check({.certificate_file = "c"}));
  EXPECT_FALSE(transport::tls::check({.key_file = "k"}));
  EXPECT_TRUE(transport::tls::check({.mode = "on", .certificate_file = "c", .key_file = "k"}));
}

TEST(TlsChoice, OnlyWhoShowsACertificateMayLeaveOutTheTenant) {
  const ClientChoice certified{.certificate_file = "c", .key_file = "k"};
  EXPECT_EQ(transport::tls::tenant_to_say("", certified, true), "");
  EXPECT_EQ(transport::tls::tenant_to_say("", certified, false), "local");
  EXPECT_EQ(transport::tls::tenant_to_say("", {}, true), "local");
  EXPECT_EQ(transport::tls::tenant_to_say("a", certified, true), "a");
}

TEST(TlsChoice, MappedAndIpv6LoopbackAreLoopback) {
  EXPECT_EQ(transport::reach_of(Connected("127.0.0.1").client.get()), Reach::kLoopback);
  const auto v6 = transport::listen_socket(*transport::parse_address("[::1]:0"), 0);
  if (!v6) GTEST_SKIP() << "no IPv6 here";
  EXPECT_EQ(transport::reach_of(Connected("[::1]").client.get()), Reach::kLoopback);
  EXPECT_EQ(transport::reach_of(Connected("[::ffff:127.0.0.1]").client.get()), Reach::kLoopback);
}

}  // namespace
}  // namespace sluice::test
