// Goal: programs built for CUDA 12 and 11 get their versions' functions and structs, shared or
// static. Method: run older_program on a driver that records its calls.
#include "tests/cudart/process.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::test {
namespace {

const std::string kPrograms = SLUICE_TEST_PROGRAMS;
const std::string kLibraries = SLUICE_TEST_LIB_DIR;

class OlderVersion : public testing::TestWithParam<const char*> {
 protected:
  static Outcome run_program(std::map<std::string, std::string> extra = {}) {
    const std::string program = GetParam();
    if (program.starts_with("older_static")) extra["LD_PRELOAD"] = kLibraries + "/libsluice.so";
    extra["LD_LIBRARY_PATH"] = kPrograms + "/fake:" + kLibraries;
    return run(kPrograms + "/" + program, {}, std::move(extra));
  }
  static bool is_12() { return std::string(GetParam()).ends_with("12"); }
};
INSTANTIATE_TEST_SUITE_P(Cudart, OlderVersion,
                         testing::Values("older_shared_12", "older_static_12", "older_shared_11",
                                         "older_static_11"),
                         [](const auto& which) { return std::string(which.param); });

TEST_P(OlderVersion, forms_and_structs_are_those_of_the_version) {
  const Outcome outcome = run_program();
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(outcome.output, is_12() ? "OK 12090\n" : "OK 11080\n");
}

TEST_P(OlderVersion, places_given_by_device_number_reach_the_driver_as_locations) {
  const Outcome outcome = run_program();
  EXPECT_EQ(outcome.calls("cuMemAdvise_v2"),
            std::vector<std::string>{"cuMemAdvise_v2 256 advice=1 type=1 id=0"});
  EXPECT_EQ(outcome.calls("cuMemPrefetchAsync_v2"),
            (std::vector<std::string>{"cuMemPrefetchAsync_v2 256 type=2 id=0 stream=(nil)",
                                      "cuMemPrefetchAsync_v2 256 type=1 id=0 stream=0x2"}));
}

TEST_P(OlderVersion, edges_have_no_data) {
  const Outcome outcome = run_program();
  EXPECT_EQ(outcome.calls("cuGraphAddDependencies_v2"),
            std::vector<std::string>{"cuGraphAddDependencies_v2 1 edges=(nil)"});
}

TEST_P(OlderVersion, driver_of_the_same_version_is_new_enough) {
  const Outcome outcome = run_program({{"FAKE_DRIVER_VERSION", is_12() ? "12000" : "11000"}});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST_P(OlderVersion, driver_of_an_older_version_is_not) {
  const Outcome outcome =
      run_program({{"FAKE_DRIVER_VERSION", is_12() ? "11080" : "10020"}, {"SLUICE_LOG", "off"}});
  EXPECT_NE(outcome.status, 0);
  EXPECT_TRUE(outcome.calls("cuInit").empty());
}

TEST(Cudart, program_of_cuda_13_needs_a_driver_of_cuda_13) {
  const Outcome outcome = run(kPrograms + "/program_static", {"launch"},
                              {{"LD_PRELOAD", kLibraries + "/libsluice.so"},
                               {"LD_LIBRARY_PATH", kPrograms + "/fake"},
                               {"FAKE_DRIVER_VERSION", "12090"},
                               {"SLUICE_LOG", "off"}});
  EXPECT_EQ(outcome.output, "launch 35\nsync 35\n");
}

}  // namespace
}  // namespace sluice::test
