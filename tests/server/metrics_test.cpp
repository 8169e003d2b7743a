// What a monitoring system is told, and that it is told when the server is stuck.
#include "server/metrics/exporter.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <thread>

namespace sluice::server::metrics {
namespace {

control::TenantInfo tenant(const std::string& name) {
  control::TenantInfo out;
  out.name = name;
  out.sessions = 2;
  out.used_bytes = 3 << 20;
  out.memory_kinds[index_of(MemoryKind::kData)] = 2 << 20;
  out.memory_kinds[index_of(MemoryKind::kModule)] = 1 << 20;
  out.memory_limit_bytes = 64 << 20;
  out.memory_denials = 7;
  out.served_us = 2'500'000;
  out.held_us = {1'000'000, 2'000'000, 0};
  return out;
}

double value_of(const std::vector<Family>& all, const std::string& name,
                const std::string& label = "", const std::string& second = "") {
  for (const Family& family : all)
    for (const Sample& sample : family.samples) {
      std::map<std::string, std::string> labels(sample.labels.begin(), sample.labels.end());
      const bool is_wanted =
          family.name == name && (label.empty() || labels["tenant"] == label) &&
          (second.empty() || labels["reason"] == second || labels["kind"] == second);
      if (is_wanted) return sample.value;
    }
  ADD_FAILURE() << "there is no " << name;
  return -1;
}

TEST(Metrics, EveryTenantHasItsFigures) {
  Snapshot now;
  now.tenants = {tenant("a"), tenant("b")};
  now.metered = {{"a", "GPU-1", {2.5, 4, 1e9, 2e9}}, {"b", "GPU-1", {}}};
  const auto all = families(now);
  EXPECT_EQ(2.5, value_of(all, "sluice_gpu_seconds_total", "a"));
  EXPECT_EQ(0.0, value_of(all, "sluice_gpu_seconds_total", "b"));
  EXPECT_EQ(4.0, value_of(all, "sluice_reserved_gpu_seconds_total", "a"));
  EXPECT_EQ(1e9, value_of(all, "sluice_mem_byte_seconds_total", "a"));
  EXPECT_EQ(2e9, value_of(all, "sluice_reserved_mem_byte_seconds_total", "a"));
  EXPECT_EQ(2.0, value_of(all, "sluice_throttled_seconds_total", "a", "limit"));
  EXPECT_EQ(3 << 20, value_of(all, "sluice_mem_used_bytes", "a"));
  EXPECT_EQ(2 << 20, value_of(all, "sluice_mem_bytes", "a", "data"));
  EXPECT_EQ(1 << 20, value_of(all, "sluice_mem_bytes", "a", "module"));
  EXPECT_EQ(0, value_of(all, "sluice_mem_bytes", "b", "host_pinned"));
  EXPECT_EQ(7.0, value_of(all, "sluice_mem_denied_total", "a"));
}

TEST(Metrics, CountersAreNamedSo) {
  Snapshot now;
  now.tenants = {tenant("a")};
  now.server.devices = {{"GPU", 100, 50}};
  now.metered = {{"a", "GPU-1", {}}};
  for (const Family& family : families(now)) {
    EXPECT_EQ(family.is_counter,
              family.name.ends_with("_total") && !family.name.ends_with("mem_total"))
        << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_FALSE(family.samples.empty()) << family.name;
  }
}

TEST(Metrics, AStoppedDivisionOfTimeIsAnAlarm) {
  Snapshot now;
  EXPECT_EQ(1.0, value_of(families(now), "sluice_enforcement_ok"));
  now.server.is_enforcing = false;
  EXPECT_EQ(0.0, value_of(families(now), "sluice_enforcement_ok"));
}

class FakeServer final : public control::Administration {
 public:
  [[nodiscard]] control::ServerInfo server() const override { return {}; }
  [[nodiscard]] std::vector<control::SessionInfo> sessions() const override { return {}; }
  [[nodiscard]] std::vector<control::TenantInfo> tenants() const override {
    return {tenant("a\"b")};
  }
  Result<control::Changed> set_tenant(const std::string&, const config::TenantOverride&) override {
    return no();
  }
  Result<control::Changed> remove_tenant(const std::string&, bool) override { return no(); }
  Result<control::Changed> new_token(const std::string&) override { return no(); }
  Result<control::Changed> revoke_token(const std::string&) override { return no(); }
  Result<std::uint32_t> kill_session(std::uint64_t) override { return no(); }
  Result<std::uint32_t> kill_tenant(const std::string&) override { return no(); }
  Result<std::string> reload() override { return no(); }
  std::vector<control::MeteredUse> metered() override {
    return {{"a\"b", "GPU-1", {2.5, 0, 0, 0}}};
  }
  std::shared_ptr<store::UsageLog> usage_log() override { return nullptr; }

 private:
  static tl::unexpected<Error> no() { return fail(ErrorCode::kUnsupported, "not here"); }
};

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(0, ::bind(fd, reinterpret_cast<sockaddr*>(&address), size));
  EXPECT_EQ(0, ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size));
  ::close(fd);
  return ntohs(address.sin_port);
}

std::string fetch(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  EXPECT_EQ(0, ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address));
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  EXPECT_EQ(static_cast<ssize_t>(request.size()), ::send(fd, request.data(), request.size(), 0));
  std::string out;
  char piece[4096];
  for (ssize_t got = 0; (got = ::recv(fd, piece, sizeof piece, 0)) > 0;)
    out.append(piece, static_cast<std::size_t>(got));
  ::close(fd);
  return out;
}

TEST(Exporter, AnswersInPrometheusFormat) {
  FakeServer server;
  const int port = free_port();
  const auto exporter = Exporter::start("127.0.0.1:" + std::to_string(port), server,
                                        [](const std::function<void()>& what) { what(); });
  ASSERT_TRUE(exporter.has_value()) << exporter.error().message;
  const std::string text = fetch(port);
  EXPECT_NE(std::string::npos, text.find("# TYPE sluice_gpu_seconds_total counter")) << text;
  EXPECT_NE(std::string::npos,
            text.find(R"(sluice_gpu_seconds_total{tenant="a\"b",gpu_uuid="GPU-1"} 2.5)"))
      << text;
  EXPECT_NE(std::string::npos, text.find("sluice_enforcement_ok 1")) << text;
}

TEST(Exporter, SaysSoWhenTheServerIsStuck) {
  FakeServer server;
  const int port = free_port();
  std::vector<std::function<void()>> never;
  const auto exporter =
      Exporter::start("127.0.0.1:" + std::to_string(port), server,
                      [&](std::function<void()> what) { never.push_back(std::move(what)); });
  ASSERT_TRUE(exporter.has_value());
  EXPECT_NE(std::string::npos, fetch(port).find("sluice_enforcement_ok 0"));
}

TEST(Exporter, AnAddressThatIsInUseIsNamed) {
  FakeServer server;
  const auto post = [](const std::function<void()>& what) { what(); };
  const std::string listen = "127.0.0.1:" + std::to_string(free_port());
  const auto first = Exporter::start(listen, server, post);
  ASSERT_TRUE(first.has_value());
  const auto second = Exporter::start(listen, server, post);
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(std::string::npos, second.error().message.find(listen));
}

}  // namespace
}  // namespace sluice::server::metrics
