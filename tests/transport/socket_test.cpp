#include "transport/transport.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace sluice::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A folder of its own for each test.
class SocketTest : public ::testing::Test {
 protected:
  SocketTest() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) folder_ = name;
  }
  ~SocketTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  [[nodiscard]] Address unix_socket() const {
    return {.kind = Address::Kind::kUnix, .path = folder_ + "/s", .host = {}, .port = 0};
  }

  std::string folder_;
};

Address local_tcp() {
  return {.kind = Address::Kind::kTcp, .path = {}, .host = "127.0.0.1", .port = 0};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t bytes = sizeof value;
  ::getsockopt(fd, level, name, &value, &bytes);
  return value;
}

TEST_F(SocketTest, SaysThatNoServerListensOnAMissingPath) {
  // Broken: the most frequent mistake has no explanation.
  const Result<Fd> fd = connect_socket(unix_socket(), seconds(10));
  ASSERT_FALSE(fd);
  EXPECT_EQ(fd.error().message,
            "connecting to unix:" + folder_ +
                "/s: no server is listening there (No such file or directory); start sluiced or "
                "check SLUICE_SERVER");
}

TEST_F(SocketTest, SaysThatNoServerListensOnAFreePort) {
  // Broken: the most frequent mistake has no explanation.
  Result<Fd> listener = listen_socket(local_tcp(), 0);
  ASSERT_TRUE(listener);
  const Result<Address> bound = bound_address(local_tcp(), listener->get());
  ASSERT_TRUE(bound);
  listener->reset();
  const Result<Fd> fd = connect_socket(*bound, seconds(10));
  ASSERT_FALSE(fd);
  EXPECT_TRUE(contains(fd.error().message, "no server is listening there (Connection refused)"))
      << fd.error().message;
  EXPECT_TRUE(contains(fd.error().message, bound->text())) << fd.error().message;
}

TEST_F(SocketTest, SaysThatAHostIsUnknown) {
  // Broken: a misspelt host looks like a server that is down. (.invalid never resolves, RFC 2606.)
  Address address = local_tcp();
  address.host = "no-such-host.invalid";
  address.port = 1;
  const Result<Fd> fd = connect_socket(address, seconds(10));
  ASSERT_FALSE(fd);
  EXPECT_TRUE(contains(fd.error().message, "\"no-such-host.invalid\" cannot be resolved"))
      << fd.error().message;
}

TEST_F(SocketTest, GivesUpOnAFullBacklogAtTheTimeout) {
  // Broken: a program hangs in its first CUDA call when the server is stuck.
  const Result<Fd> listener = listen_socket(unix_socket(), 0);
  ASSERT_TRUE(listener);
  ASSERT_EQ(::listen(listener->get(), 0), 0);
  std::vector<Fd> queued;
  for (int i = 0; i < 8; ++i) {
    Result<Fd> fd = connect_socket(unix_socket(), milliseconds(20));
    if (!fd) {
      EXPECT_EQ(fd.error().code, ErrorCode::kTimeout) << fd.error().message;
      return;
    }
    queued.push_back(std::move(*fd));
  }
  ADD_FAILURE() << "the backlog never filled up";
}

TEST_F(SocketTest, RefusesAUnixSocketThatAServerUses) {
  // Broken: a second sluiced silently takes the clients of the first.
  const Result<Fd> first = listen_socket(unix_socket(), 0);
  ASSERT_TRUE(first);
  const Result<Fd> second = listen_socket(unix_socket(), 0);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kExhausted);
  EXPECT_TRUE(contains(second.error().message, "address in use")) << second.error().message;
}

TEST_F(SocketTest, RefusesATcpPortThatAServerUses) {
  // Broken: the user is not told why the daemon does not start.
  const Result<Fd> first = listen_socket(local_tcp(), 0);
  ASSERT_TRUE(first);
  const Result<Address> bound = bound_address(local_tcp(), first->get());
  ASSERT_TRUE(bound);
  const Result<Fd> second = listen_socket(*bound, 0);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kExhausted);
  EXPECT_TRUE(contains(second.error().message, "address in use")) << second.error().message;
}

TEST_F(SocketTest, ReplacesTheSocketFileOfADeadServer) {
  // Broken: after a crash the daemon does not start until somebody removes a file.
  Result<Fd> dead = listen_socket(unix_socket(), 0);
  ASSERT_TRUE(dead);
  dead->reset();
  ASSERT_TRUE(std::filesystem::exists(unix_socket().path));
  const Result<Fd> listener = listen_socket(unix_socket(), 0);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_TRUE(connect_socket(unix_socket(), seconds(10)));
}

TEST_F(SocketTest, NeverReplacesAFileThatIsNoSocket) {
  // Broken: a typing error in the configuration deletes a user's file.
  std::ofstream(unix_socket().path) << "precious";
  const Result<Fd> listener = listen_socket(unix_socket(), 0);
  ASSERT_FALSE(listener);
  EXPECT_TRUE(std::filesystem::exists(unix_socket().path));
}

TEST_F(SocketTest, GivesTheSocketFileTheAskedMode) {
  // Broken: any user of the machine can connect, or none.
  for (const auto& [asked, expected] : {std::pair<unsigned, unsigned>{0, 0600}, {0660, 0660}}) {
    const Result<Fd> listener = listen_socket(unix_socket(), asked);
    ASSERT_TRUE(listener) << listener.error().message;
    struct stat info {};
    ASSERT_EQ(::stat(unix_socket().path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, expected);
  }
}

TEST_F(SocketTest, MakesConnectionsThatDoNotLeakDelayOrHang) {
  // Broken: children inherit sockets (a dead client looks alive), small records wait, vanished
  // hosts stay connected.
  for (const Address& wanted : {unix_socket(), local_tcp()}) {
    const Result<Fd> listener = listen_socket(wanted, 0);
    ASSERT_TRUE(listener);
    const Result<Address> bound = bound_address(wanted, listener->get());
    ASSERT_TRUE(bound);
    const Result<Fd> client = connect_socket(*bound, seconds(10));
    ASSERT_TRUE(client) << client.error().message;
    const Result<Fd> server = accept_socket(listener->get());
    ASSERT_TRUE(server) << server.error().message;
    for (const int fd : {listener->get(), client->get(), server->get()})
      EXPECT_EQ(::fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    for (const int fd : {client->get(), server->get()}) {
      EXPECT_EQ(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
      if (wanted.kind == Address::Kind::kUnix) continue;
      EXPECT_NE(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
      EXPECT_NE(option(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
      EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 5);
    }
  }
}

TEST_F(SocketTest, AcceptOnANonBlockingListenerSaysThatNobodyWaits) {
  // Broken: the broker's event loop stops on a client that has gone again.
  const Result<Fd> listener = listen_socket(local_tcp(), 0);
  ASSERT_TRUE(listener);
  ASSERT_EQ(::fcntl(listener->get(), F_SETFL, O_NONBLOCK), 0);
  const Result<Fd> nobody = accept_socket(listener->get());
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code, ErrorCode::kTimeout);
}

TEST_F(SocketTest, ListensOnIpv6) {
  // Broken: [::1]:PORT is understood but not usable.
  Address address = local_tcp();
  address.host = "::1";
  const Result<Fd> listener = listen_socket(address, 0);
  if (!listener) GTEST_SKIP() << "no IPv6 here: " << listener.error().message;
  const Result<Address> bound = bound_address(address, listener->get());
  ASSERT_TRUE(bound);
  EXPECT_TRUE(connect_socket(*bound, seconds(10)));
}

}  // namespace
}  // namespace sluice::transport
