// Goal: `sluice run` brings the shim into programs by every way there is, on the software GPU.
// Method: run programs and plugins whose kernels' results are checked, on a local server.
#include "tests/cudart/process.h"
#include "tools/sluice/load_shim.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::test {
namespace {

const std::string kPrograms = SLUICE_TEST_PROGRAMS;

Outcome sluice_run(std::vector<std::string> command, const std::string& option = "") {
  std::vector<std::string> args = {"run", "--local"};
  if (!option.empty()) args.push_back(option);
  args.push_back("--");
  args.insert(args.end(), command.begin(), command.end());
  return run(SLUICE_TEST_BIN_DIR "/sluice", args, {});
}

TEST(Run, plugin_with_a_static_runtime_computes) {
  const std::string plugin = kPrograms + "/plugin_static.so";
  EXPECT_EQ(sluice_run({kPrograms + "/opener", "plugin", plugin}).output, "plugin 0\n");
  EXPECT_EQ(sluice_run({kPrograms + "/opener", "plugin-apart", plugin}).output, "plugin 0\n");
  EXPECT_NE(sluice_run({kPrograms + "/opener", "plugin", plugin}, "--no-audit").status, 0);
}

TEST(Run, plugin_with_the_shared_runtime_of_cuda_12_computes) {
  const std::string plugin = kPrograms + "/plugin_shared_12.so";
  EXPECT_EQ(sluice_run({kPrograms + "/opener", "plugin", plugin}).output, "plugin 0\n");
  // Also without the audit object: the library path leads to libcudart.so.12.
  EXPECT_EQ(sluice_run({kPrograms + "/opener", "plugin", plugin}, "--no-audit").output,
            "plugin 0\n");
}

TEST(Run, program_with_an_rpath_to_a_foreign_runtime_computes) {
  const Outcome outcome = sluice_run({kPrograms + "/program_rpath", "run"});
  EXPECT_EQ(outcome.output, "OK 2\n");
}

TEST(Run, programs_built_with_the_address_sanitizer_compute) {
  for (const char* program : {"/program_asan_static", "/program_asan_shared"})
    EXPECT_EQ(sluice_run({kPrograms + program, "run"}).output, "OK 2\n") << program;
}

TEST(Run, driver_opened_by_absolute_path_is_ours) {
  const Outcome outcome =
      sluice_run({kPrograms + "/opener", "driver", kPrograms + "/foreign/libcuda.so.1"});
  EXPECT_EQ(outcome.output, "ours\n");
  EXPECT_EQ(outcome.status, 0);
}

TEST(Run, audit_is_used_where_it_costs_nothing) {
  EXPECT_TRUE(tool::can_audit("/bin/true", "2.36"));
  EXPECT_TRUE(tool::can_audit("/bin/true", "2.35"));
  EXPECT_TRUE(tool::can_audit("/bin/true", "3.0"));
  EXPECT_FALSE(tool::can_audit("/bin/true", "2.34"));
  EXPECT_FALSE(tool::can_audit("/bin/true", "2.28-10+deb10u1"));
  EXPECT_FALSE(tool::can_audit("/usr/bin/valgrind", "2.36"));
  EXPECT_FALSE(tool::can_audit("/bin/true", "musl"));
}

TEST(Run, sanitizer_is_found_in_what_a_program_is_linked_to) {
  EXPECT_TRUE(tool::sanitizer_of(kPrograms + "/program_asan_shared").starts_with("libasan.so."));
  EXPECT_EQ(tool::sanitizer_of(kPrograms + "/program_shared"), "");
  EXPECT_EQ(tool::sanitizer_of("/dev/null"), "");
  EXPECT_EQ(tool::sanitizer_of("/no/such/file"), "");
}

}  // namespace
}  // namespace sluice::test
