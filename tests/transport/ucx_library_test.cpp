// Loading UCX: it is a good guest, an old or absent one is told, and what it is asked for is
// checked.
#include "transport/ucx/devices.h"
#include "transport/ucx/library.h"
#include "transport/ucx/quiet_environment.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace sluice::transport::ucx {
namespace {

struct Outcome {
  int status;
  std::string output;
};
/// ucx_guest with these settings in its environment.
Outcome run_guest(const std::string& settings, const std::string& plugin = SLUICE_UCX_PLUGIN) {
  const std::string command = "env UCX_TLS=tcp UCX_NET_DEVICES=lo " + settings +
                              " " SLUICE_UCX_GUEST " " + plugin + " 2>&1";
  FILE* const pipe = ::popen(command.c_str(), "r");
  Outcome out{};
  char piece[256];
  while (std::fgets(piece, sizeof piece, pipe) != nullptr) out.output += piece;
  out.status = WEXITSTATUS(::pclose(pipe));
  return out;
}

TEST(UcxLibrary, LeavesTheProcessAsItWas) {
  // Broken: a Python program's SIGSEGV handler, its mmap or its children's environment are UCX's.
  const Outcome outcome = run_guest("");
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(outcome.status, 0);
}

TEST(UcxLibrary, LeavesTheProcessAsItWasAlsoAgainstTheUsersSettings) {
  // Broken: an MPI job's settings of UCX apply to a program that has nothing to do with it.
  const Outcome outcome = run_guest(
      "UCX_HANDLE_ERRORS=bt UCX_ERROR_SIGNALS=SEGV,BUS UCX_MEM_EVENTS=y "
      "UCX_MEM_MMAP_HOOK_MODE=bistro UCX_VFS_ENABLE=y");
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(outcome.status, 0);
}

TEST(UcxLibrary, WouldBeSeenToChangeTheProcess) {
  // The two tests above look with the same eyes.
  EXPECT_NE(run_guest("UCX_HANDLE_ERRORS=bt", "--careless").output.find("signal 11"),
            std::string::npos);
}

TEST(UcxLibrary, SaysThatAnOldOneIsTooOld) {
  // Broken: an old image's program dies of a missing symbol instead of using TCP.
  const Outcome outcome = run_guest("LD_LIBRARY_PATH=" SLUICE_FAKE_UCP_DIR);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.output, "UCX 1.11.2 is installed; 1.12 or a later 1.x is needed\n");
}

TEST(UcxLibrary, SaysWhatIsMissing) {
  // Broken: a package without the plugin looks like a network without RDMA. (That UCX itself is
  // absent reads the same way: the loader's own words.)
  const Outcome outcome = run_guest("", "/nowhere/libsluice_ucx.so");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find("/nowhere/libsluice_ucx.so"), std::string::npos) << outcome.output;
}

TEST(UcxLibrary, SaysThatUcxIsAbsent) {
  // Broken: an image without UCX gives no reason. An empty file in its place is as good as none.
  const std::string folder = std::string(SLUICE_FAKE_UCP_DIR) + "/absent";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/libucp.so.0").flush();
  const Outcome outcome = run_guest("LD_LIBRARY_PATH=" + folder);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.output.rfind("UCX is not installed: ", 0), 0U) << outcome.output;
}

TEST(UcxLane, IsRdmaUnlessTcpIsAskedFor) {
  EXPECT_EQ(parse_lane("").value(), Lane::kRdma);
  EXPECT_EQ(parse_lane("rc").value(), Lane::kRdma);
  EXPECT_EQ(parse_lane("rc_verbs,rc_mlx5").value(), Lane::kRdma);
  EXPECT_EQ(parse_lane("tcp").value(), Lane::kTcp);
}

TEST(UcxLane, RefusesUdAndWhatBringsItAlong) {
  // Broken: a lost packet aborts the program (UCX's ud has a time limit that does).
  for (const char* text : {"ud", "ud_verbs", "rc,ud", "all", "ib", "dc", "rc,tcp", "^tcp", "shm"}) {
    const auto lane = parse_lane(text);
    ASSERT_FALSE(lane) << text;
    EXPECT_EQ(lane.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(lane.error().message.find("UCX_TLS"), std::string::npos);
  }
}

TEST(ScopedEnvironment, AddsReplacesAndPutsBack) {
  ::setenv("SLUICE_TEST_KEPT", "kept", 1);
  ::setenv("SLUICE_TEST_REPLACED", "old", 1);
  char** const before = environ;
  const Settings settings = {{"SLUICE_TEST_REPLACED", "new"}, {"SLUICE_TEST_ADDED", ""}};
  {
    const ScopedEnvironment scope(settings);
    EXPECT_STREQ(std::getenv("SLUICE_TEST_KEPT"), "kept");
    EXPECT_STREQ(std::getenv("SLUICE_TEST_REPLACED"), "new");
    EXPECT_STREQ(std::getenv("SLUICE_TEST_ADDED"), "");
  }
  EXPECT_EQ(environ, before);
  EXPECT_STREQ(std::getenv("SLUICE_TEST_REPLACED"), "old");
  EXPECT_EQ(std::getenv("SLUICE_TEST_ADDED"), nullptr);
}

TEST(ScopedEnvironment, AChangeByAnotherThreadStays) {
  // Broken: a setenv() of the program while cuInit runs is lost.
  const Settings settings = {{"SLUICE_TEST_OURS", "1"}};
  {
    const ScopedEnvironment scope(settings);
    ::setenv("SLUICE_TEST_THEIRS", "2", 1);
  }
  EXPECT_STREQ(std::getenv("SLUICE_TEST_THEIRS"), "2");
  EXPECT_EQ(std::getenv("SLUICE_TEST_OURS"), nullptr);
}

/// A sysfs with one device.
class UcxDevices : public ::testing::Test {
 protected:
  UcxDevices() { root_ = ::mkdtemp(name_.data()); }
  ~UcxDevices() override { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  std::string name_ = "/tmp/sluice-sysfs-XXXXXX", root_;
};

TEST_F(UcxDevices, ArePortsStatesAndNetworks) {
  put("rxe0/ports/1/state", "4: ACTIVE");
  put("rxe0/ports/1/link_layer", "Ethernet");
  put("rxe0/ports/1/gid_attrs/ndevs/0", "dummy0");
  put("rxe0/ports/1/gid_attrs/ndevs/1", "dummy0");
  const auto devices = devices_in(root_);
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_TRUE(devices[0].is_usable());
  EXPECT_EQ(describe(devices[0]), "rxe0 port 1 active (Ethernet, dummy0)");
}

TEST_F(UcxDevices, APortThatIsDownIsNotUsable) {
  // Broken: a host with an unplugged card tries RDMA at every start.
  put("mlx5_0/ports/1/state", "1: DOWN");
  put("mlx5_0/ports/1/link_layer", "InfiniBand");
  const auto devices = devices_in(root_);
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_FALSE(devices[0].is_usable());
  EXPECT_EQ(describe(devices[0]), "mlx5_0 port 1 not active (InfiniBand)");
}

TEST(UcxDevicesOfThisHost, NoneIsNoError) {
  EXPECT_TRUE(devices_in("/nowhere").empty());
}

}  // namespace
}  // namespace sluice::transport::ucx
