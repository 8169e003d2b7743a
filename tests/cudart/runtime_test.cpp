// Goal: programs built by nvcc reach the driver with the right calls through our runtime, whichever
// way they are linked. Method: run them on a driver that records its calls.
#include "tests/cudart/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace sluice::test {
namespace {

const std::string kPrograms = SLUICE_TEST_PROGRAMS;
const std::string kLibraries = SLUICE_TEST_LIB_DIR;

Outcome run_preloaded(const std::string& program, const std::string& mode,
                      std::map<std::string, std::string> extra = {}) {
  extra["LD_PRELOAD"] = kLibraries + "/libsluice.so";
  // Like many a user's: a toolkit's runtime is on the path and must not win over ours.
  extra["LD_LIBRARY_PATH"] = kPrograms + "/fake:" + SLUICE_TEST_TOOLKIT "/lib64";
  return run(kPrograms + "/" + program, {mode}, std::move(extra));
}

class EveryLinkage : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cudart, EveryLinkage,
                         testing::Values("program_static", "program_shared", "program_relocatable"),
                         [](const auto& which) { return std::string(which.param); });

TEST_P(EveryLinkage, kernel_reaches_driver_with_its_arguments) {
  const Outcome outcome = run_preloaded(GetParam(), "run");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "OK 2\n");
  const auto launches = outcome.calls("cuLaunchKernel");
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0],
            "cuLaunchKernel _Z5scalePKfPfi grid=4,2,1 block=32,1,1 shared=128 stream=(nil)");
  EXPECT_EQ(outcome.calls("cuInit").size(), 1u);
  EXPECT_EQ(outcome.calls("cuDevicePrimaryCtxRetain").size(), 1u);
}

TEST_P(EveryLinkage, image_is_loaded_once_and_unloaded_at_exit) {
  const Outcome outcome = run_preloaded(GetParam(), "run");
  EXPECT_EQ(outcome.calls("cuLibraryLoadData"),
            std::vector<std::string>{"cuLibraryLoadData magic=466243b1"});
  ASSERT_FALSE(outcome.driver.empty());
  EXPECT_EQ(outcome.driver.back(), "cuLibraryUnload");
}

TEST_P(EveryLinkage, registration_alone_makes_no_driver_call) {
  const Outcome outcome = run_preloaded(GetParam(), "idle");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.output, "");
  EXPECT_TRUE(outcome.driver.empty());
}

TEST_P(EveryLinkage, errors_are_kept_per_thread_and_cleared_by_reading) {
  const Outcome outcome = run_preloaded(GetParam(), "errors", {{"SLUICE_LOG", "off"}});
  EXPECT_EQ(outcome.output,
            "malloc 2\npeek 2\nother 0\nlast 2\nthen 0\n"
            "query 600\nafter query 0\n"
            "block 9\ngrid 9\nfunction 98\nsymbol 13\nbounds 1\ndevice 101\ndirection 21\n"
            "pitch 12\nunsupported 801\nzero 0\n"
            "text cudaErrorMemoryAllocation out of memory\n");
}

TEST_P(EveryLinkage, symbols_managed_variables_properties_and_boxes_work) {
  const Outcome outcome = run_preloaded(GetParam(), "objects");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(outcome.calls("cuMemsetD2D8_v2"),
            std::vector<std::string>{"cuMemsetD2D8_v2 pitch=8 value=3 8x8"});
  EXPECT_EQ(
      outcome.calls("cuMemcpy2DUnaligned_v2"),
      std::vector<std::string>{"cuMemcpy2DUnaligned_v2 4x4 from type=1 pitch=4 to type=2 pitch=8"});
  // The reset let go of the context; the next call took it again.
  EXPECT_EQ(outcome.calls("cuDevicePrimaryCtxRetain").size(), 2u);
}

TEST(Cudart, failed_image_load_is_the_launch_error) {
  const Outcome outcome =
      run_preloaded("program_static", "launch", {{"FAKE_DRIVER_FAIL", "cuLibraryLoadData:209"}});
  EXPECT_EQ(outcome.output, "launch 209\nsync 0\n");
}

TEST(Cudart, kernel_missing_in_image_is_an_invalid_device_function) {
  const Outcome outcome =
      run_preloaded("program_static", "launch", {{"FAKE_DRIVER_FAIL", "cuLibraryGetKernel:500"}});
  EXPECT_EQ(outcome.output, "launch 98\nsync 0\n");
}

TEST(Cudart, driver_errors_pass_through_to_the_call_that_waits) {
  const Outcome outcome =
      run_preloaded("program_static", "launch", {{"FAKE_DRIVER_FAIL", "cuCtxSynchronize:700"}});
  EXPECT_EQ(outcome.output, "launch 0\nsync 700\n");
}

TEST(Cudart, failing_initialisation_is_reported_by_every_call) {
  const Outcome outcome =
      run_preloaded("program_static", "launch", {{"FAKE_DRIVER_FAIL", "cuInit:100"}});
  EXPECT_EQ(outcome.output, "launch 100\nsync 100\n");
}

TEST(Cudart, initialisation_that_failed_is_tried_again) {
  const std::string file = testing::TempDir() + "sluice_cudart_up." + std::to_string(::getpid());
  const Outcome outcome = run(kPrograms + "/program_static", {"retry", file},
                              {{"LD_PRELOAD", kLibraries + "/libsluice.so"},
                               {"LD_LIBRARY_PATH", kPrograms + "/fake"},
                               {"FAKE_DRIVER_FAIL", "cuInit:802"},
                               {"FAKE_DRIVER_FAIL_UNTIL", file}});
  EXPECT_EQ(outcome.output, "early 802\nlate 0\nOK 2\n");
  ::unlink(file.c_str());
}

TEST(Cudart, per_thread_default_stream_programs_use_the_per_thread_stream) {
  const Outcome outcome = run_preloaded("program_per_thread", "run");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const auto launches = outcome.calls("cuLaunchKernel");
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_TRUE(launches[0].ends_with("stream=0x2")) << launches[0];
  EXPECT_EQ(outcome.calls("cuMemcpyDtoH").size(), 1u);
  EXPECT_EQ(outcome.calls("cuMemcpyDtoHAsync_v2 400 stream=0x2").size(), 1u);
  EXPECT_GE(outcome.calls("cuStreamSynchronize stream=0x2").size(), 1u);
}

TEST(Cudart, descriptions_of_nodes_and_textures_come_back_as_they_were_given) {
  const Outcome outcome = run_preloaded("graph_program", "");
  EXPECT_EQ(outcome.output, "OK\n");
}

TEST(Cudart, line_of_bytes_is_wrapped_at_the_rows_of_an_array) {
  const auto copies = run_preloaded("graph_program", "").calls("cuMemcpy2DUnaligned_v2");
  ASSERT_EQ(copies.size(), 3u);
  EXPECT_TRUE(copies[0].starts_with("cuMemcpy2DUnaligned_v2 12x1 ")) << copies[0];
  EXPECT_TRUE(copies[1].starts_with("cuMemcpy2DUnaligned_v2 16x1 ")) << copies[1];
  EXPECT_TRUE(copies[2].starts_with("cuMemcpy2DUnaligned_v2 14x1 ")) << copies[2];
}

TEST(Cudart, missing_driver_is_an_insufficient_driver) {
  const Outcome outcome = run(kPrograms + "/program_shared", {"launch"},
                              {{"LD_LIBRARY_PATH", kPrograms + "/only-cudart"}});
  if (outcome.output.find("launch 35") == std::string::npos)
    GTEST_SKIP() << "this machine has a libcuda.so.1 of its own: " << outcome.output;
  EXPECT_EQ(outcome.output, "launch 35\nsync 35\n");
}

TEST(Preload, stripped_static_runtime_is_named_in_one_line) {
  const Outcome outcome = run_preloaded("program_stripped", "idle");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.output.find("program_stripped: links the CUDA runtime statically and is "
                                "stripped: link with -cudart shared"),
            std::string::npos)
      << outcome.output;
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1);
}

TEST(Preload, exceptions_inside_our_libraries_find_their_handlers) {
  // An unwritable log file is an exception of the logging library, caught by ours: stderr it is.
  const Outcome outcome =
      run_preloaded("program_stripped", "idle", {{"SLUICE_LOG_FILE", "/dev/null/log"}});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.output.find("program_stripped: links the CUDA runtime statically"),
            std::string::npos)
      << outcome.output;
}

TEST(Preload, programs_without_cuda_see_nothing) {
  const Outcome outcome =
      run("/bin/echo", {"hello"},
          {{"LD_PRELOAD", kLibraries + "/libsluice.so"}, {"LD_LIBRARY_PATH", kPrograms + "/fake"}});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.output, "hello\n");
  EXPECT_TRUE(outcome.driver.empty());
}

}  // namespace
}  // namespace sluice::test
