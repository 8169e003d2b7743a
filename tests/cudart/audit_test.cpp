// Goal: with the audit object, our libraries are found where LD_PRELOAD and LD_LIBRARY_PATH do not
// reach, and static runtimes are redirected in every object. Method: real little programs and
// plugins, in a folder where libcuda.so.1 is a driver that records its calls. Each test also shows
// that the same program goes wrong without the audit object.
#include "shim/audit/choice.h"
#include "tests/cudart/process.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace sluice::test {
namespace {

const std::string kPrograms = SLUICE_TEST_PROGRAMS;
const std::string kFolder = kPrograms + "/audited";  // our libraries beside the recording driver
const std::string kForeign = kPrograms + "/foreign";

using Environment = std::map<std::string, std::string>;

Environment audited(Environment extra = {}) {
  extra["LD_AUDIT"] = kFolder + "/libsluice-audit.so";
  return extra;
}
/// As `sluice run` does.
Environment audited_and_preloaded(Environment extra = {}) {
  extra["LD_PRELOAD"] = kFolder + "/libsluice.so";
  return audited(std::move(extra));
}

Outcome open_plugin(const std::string& how, const std::string& plugin, Environment environment) {
  return run(kPrograms + "/opener", {how, kPrograms + "/" + plugin}, std::move(environment));
}

TEST(Audit, kernels_of_a_plugin_with_a_static_runtime_run) {
  const Outcome outcome = open_plugin("plugin", "plugin_static.so", audited_and_preloaded());
  EXPECT_EQ(outcome.output, "plugin 0\n");
  EXPECT_EQ(outcome.calls("cuLaunchKernel").size(), 1u);
  // LD_PRELOAD alone comes too late for it: its constructors register kernels with its own runtime.
  const Outcome unaudited =
      open_plugin("plugin", "plugin_static.so", {{"LD_PRELOAD", kFolder + "/libsluice.so"}});
  EXPECT_EQ(unaudited.output, "plugin 1\n");
}

TEST(Audit, plugin_that_is_opened_again_is_bound_again) {
  const Outcome outcome = open_plugin("plugin-again", "plugin_static.so", audited_and_preloaded());
  EXPECT_EQ(outcome.output, "plugin 0\n") << outcome.status;
  EXPECT_EQ(outcome.calls("cuLaunchKernel").size(), 2u);
  EXPECT_EQ(outcome.calls("cuLibraryUnload").size(), 2u);
}

TEST(Audit, kernels_of_a_plugin_with_a_static_runtime_run_in_a_namespace_of_its_own) {
  const Outcome outcome = open_plugin("plugin-apart", "plugin_static.so", audited_and_preloaded());
  EXPECT_EQ(outcome.output, "plugin 0\n");
  EXPECT_EQ(outcome.calls("cuLaunchKernel").size(), 1u);
}

TEST(Audit, kernels_of_a_plugin_with_a_shared_runtime_run_in_a_namespace_of_its_own) {
  const Outcome outcome = open_plugin("plugin-apart", "plugin_shared.so", audited_and_preloaded());
  EXPECT_EQ(outcome.output, "plugin 0\n");
  EXPECT_EQ(outcome.calls("cuLaunchKernel").size(), 1u);
}

TEST(Audit, program_with_a_static_runtime_is_bound_once) {
  const Outcome outcome = run(kPrograms + "/program_static", {"run"}, audited_and_preloaded());
  EXPECT_EQ(outcome.output, "OK 2\n");
  EXPECT_EQ(outcome.calls("cuLibraryLoadData").size(), 1u);
}

TEST(Audit, program_with_a_static_runtime_of_cuda_12_is_bound) {
  const Outcome outcome = run(kPrograms + "/older_static_12", {}, audited_and_preloaded());
  EXPECT_EQ(outcome.output, "OK 12090\n");
}

TEST(Audit, library_that_a_program_is_linked_to_is_bound_before_its_constructors) {
  const Outcome outcome = run(kPrograms + "/linked_plugin", {}, audited_and_preloaded());
  EXPECT_EQ(outcome.output, "plugin 0\n");
  EXPECT_EQ(outcome.calls("cuLaunchKernel").size(), 1u);
}

TEST(Audit, runtime_is_ours_against_an_rpath_to_a_foreign_one) {
  const Outcome outcome = run(kPrograms + "/program_rpath", {"run"}, audited());
  EXPECT_EQ(outcome.output, "OK 2\n");
  EXPECT_EQ(outcome.calls("cuLaunchKernel").size(), 2u);
  const Outcome unaudited =
      run(kPrograms + "/program_rpath", {"run"}, {{"LD_LIBRARY_PATH", kFolder}});
  EXPECT_NE(unaudited.status, 0);
  EXPECT_TRUE(unaudited.calls("cuLaunchKernel").empty());
}

TEST(Audit, runtime_of_cuda_12_is_found_without_a_library_path) {
  const Outcome outcome = run(kPrograms + "/older_shared_12", {}, audited());
  EXPECT_EQ(outcome.output, "OK 12090\n");
  EXPECT_NE(run(kPrograms + "/older_shared_12", {}, {}).status, 0);
}

TEST(Audit, driver_is_ours_when_opened_by_absolute_path) {
  const std::string foreign = kForeign + "/libcuda.so.1";
  const Outcome outcome = run(kPrograms + "/opener", {"driver", foreign}, audited());
  EXPECT_EQ(outcome.output, "ours\n");
  EXPECT_EQ(outcome.calls("cuInit").size(), 1u);
  EXPECT_EQ(run(kPrograms + "/opener", {"driver", foreign}, {{"LD_LIBRARY_PATH", kFolder}}).output,
            "foreign\n");
}

TEST(Audit, server_programs_of_ours_get_the_driver_that_they_ask_for) {
  // Started from a program with the shim, they inherit LD_AUDIT.
  const Outcome outcome =
      run(kPrograms + "/own/sluice-worker", {"driver", kForeign + "/libcuda.so.1"}, audited());
  EXPECT_EQ(outcome.output, "foreign\n");
}

TEST(Audit, driver_is_ours_in_a_namespace_of_its_own) {
  const Outcome outcome = run(kPrograms + "/opener", {"driver-apart", "libcuda.so.1"}, audited());
  EXPECT_EQ(outcome.output, "ours\n");
  EXPECT_EQ(outcome.calls("cuInit").size(), 1u);
  EXPECT_EQ(run(kPrograms + "/opener", {"driver-apart", "libcuda.so.1"},
                {{"LD_PRELOAD", kFolder + "/libcuda.so.1"}, {"LD_LIBRARY_PATH", kForeign}})
                .output,
            "foreign\n");
}

TEST(Audit, program_linked_to_the_driver_starts_without_a_library_path) {
  const Outcome outcome = run(kPrograms + "/linked_driver", {}, audited());
  EXPECT_EQ(outcome.output, "cuInit 0\n");
  EXPECT_NE(run(kPrograms + "/linked_driver", {}, {}).status, 0);
}

TEST(Audit, program_built_with_the_address_sanitizer_runs) {
  const Outcome shared = run(kPrograms + "/program_asan_shared", {"run"}, audited());
  EXPECT_EQ(shared.output, "OK 2\n");
  // The sanitizer insists on being first in the list of libraries.
  Environment environment = audited_and_preloaded();
  environment["LD_PRELOAD"] = std::string(SLUICE_TEST_ASAN) + " " + environment["LD_PRELOAD"];
  const Outcome bound = run(kPrograms + "/program_asan_static", {"run"}, environment);
  EXPECT_EQ(bound.output, "OK 2\n");
}

TEST(Audit, plugin_with_a_stripped_static_runtime_is_named_in_one_line) {
  const Outcome outcome = open_plugin("plugin", "plugin_stripped.so", audited_and_preloaded());
  EXPECT_NE(outcome.output.find("plugin_stripped.so: links the CUDA runtime statically and is "
                                "stripped: link with -cudart shared"),
            std::string::npos)
      << outcome.output;
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 2);  // and its result
}

TEST(Audit, static_runtime_without_libsluice_is_named_in_one_line) {
  const Outcome outcome = run(kPrograms + "/program_static", {"idle"}, audited());
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.output.find("program_static: links the CUDA runtime statically: libsluice.so "
                                "must be in LD_PRELOAD"),
            std::string::npos)
      << outcome.output;
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1);
}

TEST(Audit, programs_without_cuda_see_nothing) {
  for (const Environment& environment : {audited(), audited_and_preloaded()}) {
    const Outcome outcome = run("/bin/sh", {"-c", "exec /bin/echo hello"}, environment);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.output, "hello\n");
    EXPECT_TRUE(outcome.driver.empty());
  }
}

TEST(AuditChoice, libraries_are_known_by_base_name_and_version) {
  const std::map<std::string, std::string> wanted = {
      {"libcuda.so.1", "libcuda.so.1"},
      {"libcuda.so", "libcuda.so.1"},
      {"libcuda.so.535.183.01", ""},
      {"libcudart.so", "libcudart.so.13"},
      {"libcudart.so.13", "libcudart.so.13"},
      {"libcudart.so.12", "libcudart.so.12"},
      {"libcudart.so.12.4.127", "libcudart.so.12"},
      {"libcudart-9335f6a2.so.12", "libcudart.so.12"},
      {"libcudart.so.11.0", "libcudart.so.11.0"},
      {"libcudart.so.11.8.89", "libcudart.so.11.0"},
      {"libcudart.so.10.2", ""},
      {"libcudart.so.120", ""},
      {"libcudart_static.a", ""},
      {"libcudart.soup", ""},
      {"libcudadebugger.so.1", ""},
      {"libcublas.so.12.9.3", "libcublas.so.12"},
      {"libcublasLt.so", "libcublasLt.so.13"},
      {"libcublas.so.11", ""},
      {"libcudnn.so.9", "libcudnn.so.9"},
      {"libcudnn_ops.so.9", ""},
      {"libcuda", ""},
      {"libc.so.6", ""},
      {"", ""},
  };
  for (const auto& [name, file] : wanted) EXPECT_EQ(audit::stand_in_for(name), file) << name;
}

TEST(AuditChoice, a_library_that_is_not_in_the_folder_is_not_offered) {
  const audit::Choice nothing("/no/such/folder");
  EXPECT_STREQ(nothing.choose("/usr/lib/libcuda.so.1"), "/usr/lib/libcuda.so.1");
  const audit::Choice ours(kFolder);
  EXPECT_EQ(ours.choose("/usr/lib/libcuda.so.1"), kFolder + "/libcuda.so.1");
  EXPECT_STREQ(ours.choose("libm.so.6"), "libm.so.6");
}

}  // namespace
}  // namespace sluice::test
