// With a driver that does not count by process the broker measures what processes have, by NVML: a
// worker's word does not count.
#include "broker_fixture.h"
#include "server/nvml/gpu_processes.h"

namespace sluice::server {
namespace {

constexpr std::uint64_t kKiB = 1024;  // a tenant has 1024 of them

class Overhead : public BrokerFixture {
 protected:
  Overhead() {
    ::setenv("FAKE_NVML_FILE", (folder_ + "/nvml").c_str(), 1);
    list("");
    nvml_library_ = SLUICE_FAKE_NVML;
  }
  void list(const std::string& processes) const {
    const std::string file = folder_ + "/nvml";
    std::ofstream(file + ".new") << processes;
    std::filesystem::rename(file + ".new", file);  // it may be read at any time
  }
  std::string line_of(const Client& client, std::uint64_t bytes) const {
    return std::to_string(client.welcome.worker_pid) + " " + std::to_string(bytes) + "\n";
  }
  std::uint64_t overhead() {
    return ask([](Broker& b) { return b.server().devices.at(0).overhead_bytes; });
  }
};

TEST_F(Overhead, WhatAProcessHasBeyondItsChargesIsMeasured) {
  start();
  const Client client = open("good");
  EXPECT_EQ('1', client.data.command('c', 100 * kKiB));
  list("1 77\n" + line_of(client, 500 * kKiB));
  EXPECT_TRUE(eventually([&] { return overhead() == 400 * kKiB; }));
  EXPECT_EQ('1', client.data.command('c', 924 * kKiB)) << "the slice is not charged for it";
}

TEST_F(Overhead, AProcessThatHasLessThanItsChargesHasNone) {
  start();
  const Client other = open("other");
  const Client client = open("good");
  EXPECT_EQ('1', client.data.command('c', 1000 * kKiB));
  list(line_of(client, 10 * kKiB) + line_of(other, 1 * kKiB));
  EXPECT_TRUE(eventually([&] { return overhead() == 1 * kKiB; }));
}

TEST_F(Overhead, AWorkersWordDoesNotCount) {
  start();
  const Client client = open("good");
  list(line_of(client, 50 * kKiB));
  EXPECT_TRUE(eventually([&] { return overhead() == 50 * kKiB; }));
  EXPECT_EQ('o', client.data.command('o', 300 * kKiB));
  EXPECT_EQ('1', client.data.command('c', 1 * kKiB)) << "it was heard";
  EXPECT_GE(50 * kKiB, overhead());
}

TEST_F(Overhead, IsGoneWithItsSession) {
  start();
  const Client client = open("good");
  list(line_of(client, 500 * kKiB));
  EXPECT_TRUE(eventually([&] { return overhead() == 500 * kKiB; }));
  EXPECT_EQ('\0', client.data.command('x'));
  EXPECT_TRUE(eventually([&] { return session_count() == 0; }));
  EXPECT_EQ(0u, overhead());
}

TEST_F(Overhead, AnNvmlThatDoesNotStartIsNoReasonNotToServe) {
  list("broken\n");
  start();
  const Client client = open("good");
  EXPECT_EQ('1', client.data.command('c', 100 * kKiB));
  EXPECT_EQ('o', client.data.command('o', 300 * kKiB));
  EXPECT_TRUE(eventually([&] { return overhead() == 300 * kKiB; })) << "the worker's word is all";
}

TEST_F(Overhead, ALongListOfProcessesIsReadWhole) {
  std::string all;
  for (int pid = 1; pid <= 500; ++pid) all += std::to_string(pid) + " 7\n";
  list(all);
  auto processes = GpuProcesses::open(SLUICE_FAKE_NVML);
  ASSERT_TRUE(processes.has_value()) << processes.error().message;
  const auto bytes = (*processes)->of({});
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
  EXPECT_EQ(500u, bytes->size());
  EXPECT_EQ(7u, bytes->at(500));
}

TEST_F(Overhead, WhatNvmlDoesNotKnowIsLeftOut) {
  list("1 18446744073709551615\n2 7\n");
  auto processes = GpuProcesses::open(SLUICE_FAKE_NVML);
  ASSERT_TRUE(processes.has_value());
  EXPECT_EQ((GpuProcesses::Bytes{{2, 7}}), *(*processes)->of({}));
  EXPECT_EQ(ErrorCode::kNotFound, (*processes)->of({1}).error().code) << "another GPU";
}

TEST(GpuProcesses, NamesALibraryThatIsNotThereOrIsNone) {
  for (const char* path : {"/nonexistent/libnvidia-ml.so.1", "libm.so.6"}) {
    const auto opened = GpuProcesses::open(path);
    ASSERT_FALSE(opened.has_value());
    EXPECT_NE(std::string::npos, opened.error().message.find(path));
  }
}

}  // namespace
}  // namespace sluice::server
