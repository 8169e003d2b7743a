// A broker on a thread of the test, with fake workers, and clients that speak its frames by hand.
#pragma once

#include "protocol/frame_io.h"
#include "protocol/opcodes.h"
#include "protocol/wire.h"
#include "server/broker/broker.h"
#include "server/config/token.h"
#include "transport/transport.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace sluice::server {

using namespace std::chrono_literals;
inline constexpr auto kPatience = 20s;  ///< only a failing test waits for so long
inline const std::string kToken = "the-right-token";

/// True as soon as `condition` holds; false when the patience is over.
inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

inline wire::Hello hello_of(const std::string& tenant, const std::string& token = kToken) {
  wire::Hello hello;
  hello.protocol_version = wire::kProtocolVersion;
  hello.opcode_table_hash = wire::kOpcodeTableHash;
  hello.feature_bits = wire::kFeatureEnding | wire::kFeatureHeartbeat;
  hello.tenant = tenant;
  hello.token = token;
  hello.cuda_version = 13000;
  hello.pid = 4711;
  hello.host = "test";
  hello.program = "program";
  return hello;
}

/// One end of a bootstrap or data connection.
struct Peer {
  Fd fd;
  void say(const wire::Frame& frame) const { ASSERT_TRUE(wire::write_frame(fd.get(), frame)); }
  [[nodiscard]] Result<wire::Frame> hear() const {
    return wire::read_frame(fd.get(), std::chrono::steady_clock::now() + kPatience);
  }
  template <class Wanted>
  [[nodiscard]] std::optional<Wanted> hear_a() const {
    auto frame = hear();
    if (!frame || !std::holds_alternative<Wanted>(*frame)) return std::nullopt;
    return std::get<Wanted>(std::move(*frame));
  }
  /// The other side closed, and had nothing more to say.
  [[nodiscard]] bool is_closed() const {
    const auto frame = hear();
    return !frame && frame.error().code == ErrorCode::kPeerClosed;
  }
  /// A command of the fake worker, and its answer; 0 if there is none.
  [[nodiscard]] char command(char letter, std::optional<std::uint64_t> number = {}) const {
    char bytes[9] = {letter};
    if (number) std::memcpy(bytes + 1, &*number, sizeof *number);
    ::send(fd.get(), bytes, number ? sizeof bytes : 1, MSG_NOSIGNAL);
    char answer = 0;
    return ::recv(fd.get(), &answer, 1, 0) == 1 ? answer : '\0';
  }
};

/// A whole session as the shim opens it.
struct Client {
  Peer life_line, data;
  wire::Welcome welcome;
};

class BrokerFixture : public ::testing::Test {
 protected:
  BrokerFixture() {
    char name[] = "/tmp/sluice-broker.XXXXXX";
    folder_ = ::mkdtemp(name);
    config_.listen = {transport::parse_address("unix:" + folder_ + "/s").value()};
    config_.driver = "/a/driver";
    config_.stats_file = folder_ + "/stats";
    config_.prestart_workers = 0;
    times_.watch = 5ms;
    for (const char* tenant : {"good", "other"}) add_tenant(tenant);
  }
  ~BrokerFixture() override {
    stop();
    std::filesystem::remove_all(folder_);
  }

  config::Tenant& add_tenant(const std::string& tenant) {
    config::Tenant one;
    one.name = tenant;
    one.token_hash = config::hash_token(kToken);
    one.memory_limit_bytes = 1 << 20;
    return config_.tenants.emplace_back(one);
  }

  void start() {
    BrokerOptions options;
    options.config = config_;
    options.worker_executable = worker_;
    options.times = times_;
    options.reload = reload_;
    options.nvml_library = nvml_library_;
    broker_ = std::make_unique<Broker>(std::move(options));
    const auto opened = broker_->open();
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    thread_ = std::thread([this] { EXPECT_TRUE(broker_->run().has_value()); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    broker_->stop();
    thread_.join();
    broker_.reset();
  }
  /// Asks the broker something in its own thread.
  template <class Ask>
  auto ask(Ask question) {
    std::promise<decltype(question(*broker_))> answer;
    broker_->post([&] { answer.set_value(question(*broker_)); });
    return answer.get_future().get();
  }
  std::size_t session_count() {
    return ask([](Broker& b) { return b.sessions().size(); });
  }

  [[nodiscard]] Peer connect() const {
    auto fd = transport::connect_socket(config_.listen[0], 5s);
    EXPECT_TRUE(fd.has_value());
    return {std::move(*fd)};
  }
  [[nodiscard]] Peer greet(const wire::Hello& hello) const {
    Peer peer = connect();
    peer.say(hello);
    return peer;
  }
  /// The words of the refusal that a Hello meets; empty if there is none.
  [[nodiscard]] wire::Refusal refusal_of(const wire::Hello& hello) const {
    return greet(hello).hear_a<wire::Refusal>().value_or(wire::Refusal{{}, ""});
  }
  Client open(const std::string& tenant) const { return open(hello_of(tenant)); }
  Client open(const wire::Hello& hello) const {
    Client client;
    client.life_line = greet(hello);
    const auto frame = client.life_line.hear();
    EXPECT_TRUE(frame.has_value());
    if (const auto* refusal = std::get_if<wire::Refusal>(&*frame))
      ADD_FAILURE() << refusal->message;
    else
      client.welcome = std::get<wire::Welcome>(*frame);
    client.data = connect();
    client.data.say(wire::Attach{client.welcome.session_key});
    EXPECT_TRUE(client.data.hear_a<wire::Attached>().has_value());
    return client;
  }
  [[nodiscard]] std::string stats_text() const {
    std::ifstream file(config_.stats_file);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_, worker_ = SLUICE_FAKE_WORKER;
  std::string nvml_library_ = "none";  ///< not the host's own
  config::Config config_;
  BrokerTimes times_;
  std::function<Result<config::Config>()> reload_;
  std::unique_ptr<Broker> broker_;
  std::thread thread_;
};

}  // namespace sluice::server
