// IPv6, and hosts with several addresses.
#include "transport/tcp_connect.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>
#include <vector>

namespace sluice::transport {
namespace {

using std::chrono::seconds;

bool has_ipv6() {
  return listen_socket(parse_address("[::1]:0").value(), 0).has_value();
}
#define NEEDS_IPV6() \
  if (!has_ipv6()) GTEST_SKIP() << "this host has no IPv6 (::1 cannot be listened on)"

Deadline far() {
  return Clock::now() + seconds(60);
}

/// Connects to `to` and passes a byte through `listener`.
void expect_talk(const Fd& listener, const Address& to) {
  const Result<Fd> client = connect_socket(to, seconds(30));
  ASSERT_TRUE(client) << client.error().message;
  const Result<Fd> server = accept_socket(listener.get());
  ASSERT_TRUE(server);
  ASSERT_EQ(::send(client->get(), "x", 1, 0), 1);
  char byte = 0;
  ASSERT_EQ(::recv(server->get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
}

Result<Fd> listen_on(const std::string& text, Address* bound) {
  SLUICE_TRY(const Address wanted, parse_address(text));
  SLUICE_TRY(Fd fd, listen_socket(wanted, 0));
  SLUICE_TRY(*bound, bound_address(wanted, fd.get()));
  return fd;
}

TEST(Ipv6, ListensAndConnects) {
  NEEDS_IPV6();
  Address bound;
  const auto listener = listen_on("[::1]:0", &bound);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_EQ(bound.text(), "[::1]:" + std::to_string(bound.port));
  expect_talk(*listener, bound);
}

TEST(Ipv6, TheAnyAddressServesBothFamilies) {
  // Broken: listen = ["[::]:7627"] and no IPv4 client gets in (net.ipv6.bindv6only).
  NEEDS_IPV6();
  Address bound;
  const auto listener = listen_on("[::]:0", &bound);
  ASSERT_TRUE(listener) << listener.error().message;
  for (const char* host : {"127.0.0.1", "::1"}) {
    bound.host = host;
    expect_talk(*listener, bound);
  }
}

TEST(Ipv6, AScopeNamesTheInterface) {
  // Broken: link-local addresses, which need one, cannot be used.
  NEEDS_IPV6();
  const auto why = [](const char* address) {
    const auto fd = connect_socket(parse_address(address).value(), std::chrono::milliseconds(50));
    return fd ? std::string() : fd.error().message;
  };
  constexpr const char* kUnknown = "cannot be resolved";
  EXPECT_EQ(why("[fe80::1%lo]:1").find(kUnknown), std::string::npos) << why("[fe80::1%lo]:1");
  EXPECT_NE(why("[fe80::1%no-such-if]:1").find(kUnknown), std::string::npos);
}

TcpTarget target_of(const Fd& listener) {
  TcpTarget target;
  target.bytes = sizeof target.address;
  EXPECT_EQ(
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&target.address), &target.bytes),
      0);
  return target;
}

/// Answers nobody any more: its queue is full, and the host drops whoever knocks.
class SilentHost {
 public:
  SilentHost() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    target_ = target_of(listener_);
    for (Fd& fd : knocking_) {
      fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&target_.address), target_.bytes);
    }
  }
  [[nodiscard]] const TcpTarget& target() const { return target_; }

 private:
  Fd listener_;
  Fd knocking_[4];
  TcpTarget target_;
};

TcpTarget refusing() {
  const Fd closed = std::move(listen_socket(parse_address("127.0.0.1:0").value(), 0).value());
  return target_of(closed);
}

TEST(ConnectAny, ASilentAddressOfTheHostCostsAMomentOnly) {
  // Broken: a host with one dead address is unreachable, or every start waits for the time limit.
  const SilentHost silent;
  const Fd listener = std::move(listen_socket(parse_address("127.0.0.1:0").value(), 0).value());
  const std::vector<TcpTarget> targets = {silent.target(), target_of(listener)};
  const auto start = Clock::now();
  const TcpConnected connected = connect_any(targets, far());
  ASSERT_TRUE(connected.socket.valid()) << std::strerror(connected.error);
  EXPECT_GE(Clock::now() - start, kHeadStart) << "the first had its chance";
  EXPECT_TRUE(accept_socket(listener.get()));
}

TEST(ConnectAny, ARefusingAddressIsPassedOverAtOnce) {
  const Fd listener = std::move(listen_socket(parse_address("127.0.0.1:0").value(), 0).value());
  const std::vector<TcpTarget> targets = {refusing(), refusing(), target_of(listener)};
  const TcpConnected connected = connect_any(targets, far());
  ASSERT_TRUE(connected.socket.valid()) << std::strerror(connected.error);
  EXPECT_TRUE(accept_socket(listener.get()));
}

TEST(ConnectAny, SaysWhyNoneCouldBeReached) {
  const std::vector<TcpTarget> refused = {refusing(), refusing()};
  EXPECT_EQ(connect_any(refused, far()).error, ECONNREFUSED);
  const SilentHost silent;
  const std::vector<TcpTarget> quiet = {silent.target()};
  EXPECT_EQ(connect_any(quiet, Clock::now() + std::chrono::milliseconds(20)).error, ETIMEDOUT);
  EXPECT_NE(connect_any({}, far()).error, 0);
}

TEST(ConnectAny, AnAddressThatThisHostCannotReachDoesNotHideWhatTheOtherSays) {
  // Broken: "network unreachable" of an unused IPv6 address, while the server is simply down.
  TcpTarget nowhere;
  auto& v6 = reinterpret_cast<sockaddr_in6&>(nowhere.address);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(9);
  ASSERT_EQ(::inet_pton(AF_INET6, "fe80::1", &v6.sin6_addr), 1);  // without its scope: nowhere
  nowhere.bytes = sizeof v6;
  const std::vector<TcpTarget> targets = {nowhere, refusing()};
  EXPECT_EQ(connect_any(targets, far()).error, ECONNREFUSED);
}

}  // namespace
}  // namespace sluice::transport
