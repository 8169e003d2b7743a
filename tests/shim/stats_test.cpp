// SLUICE_STATS tells what was called, what waited, and from where.
#include "shim/stats.h"

#include "tests/shim/fake_server.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace sluice::test {
namespace {

class Stats : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("SLUICE_STATS", "stderr", 1);
    auto connection = std::make_shared<shim::Connection>(server_.connection());
    shim::set_connector_for_test(
        [connection]() -> Result<shim::Connection> { return std::move(*connection); });
    for (auto& function : shim::process().functions)
      function.calls = function.round_trips = function.waited_ns = function.bytes = 0;
    ASSERT_EQ(CUDA_SUCCESS, cuInit(0));
    CUcontext context = nullptr;
    ASSERT_EQ(CUDA_SUCCESS, cuDevicePrimaryCtxRetain(&context, 0));
    ASSERT_EQ(CUDA_SUCCESS, cuCtxSetCurrent(context));
    ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
    ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
    ASSERT_EQ(CUDA_SUCCESS, cuMemsetD8(16, 1, 1));
  }
  void TearDown() override {
    shim::reset_for_test();
    shim::set_connector_for_test({});
    ::unsetenv("SLUICE_STATS");
  }
  FakeServer server_;
};

TEST_F(Stats, CountCallsAndWaitsByFunction) {
  const std::string json = shim::stats_json(shim::process(), shim::session());
  EXPECT_NE(std::string::npos,
            json.find("\"cuCtxSynchronize\":{\"class\":\"called\",\"count\":2,\"round_trips\":2,"))
      << json;
  EXPECT_NE(std::string::npos,
            json.find("\"cuMemsetD8_v2\":{\"class\":\"posted\",\"count\":1,\"round_trips\":0,"))
      << json;
  EXPECT_NE(std::string::npos, json.find("\"sites\":[{\"function\":")) << json;
}

TEST_F(Stats, AreATableInAFileNamedAfterTheProcess) {
  const std::string pattern = ::testing::TempDir() + "sluice-stats-%p.txt";
  const std::string path =
      ::testing::TempDir() + "sluice-stats-" + std::to_string(::getpid()) + ".txt";
  ::setenv("SLUICE_STATS", pattern.c_str(), 1);
  shim::write_stats(shim::process(), shim::session());
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(std::string::npos, text.find("cuCtxSynchronize"));
  EXPECT_NE(std::string::npos, text.find("waits by place"));
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace sluice::test
