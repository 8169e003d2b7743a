// Goal: an object is bound wholly or not at all. Method: plan the binding of small objects in
// several states of repair, and of a real program, without running anything of them.
#include "shim/bind/bind.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace sluice::bind {
namespace {

const std::string kPrograms = SLUICE_TEST_PROGRAMS;

void target() {}
void older_target() {}
void serve(int) noexcept {}

/// Knows two names of every version and one that CUDA 12 and 11 have.
const cudart::Entry kKnown[] = {
    {"__cudaRegisterFatBinary", {&target, &target, &target}},
    {"cudaFree", {&target, &older_target, &target}},
    {"cudaLogsCurrent", {&target, nullptr, nullptr}},
    {"cudaMalloc", {&target, &target, &target}},
    {"cudaThreadExit", {nullptr, &target, &target}},
};
const std::size_t kKnownCount = std::size(kKnown);
const cudart::RuntimeTable known = {cudart::kRuntimeTableLayout, kKnown, &kKnownCount, &serve,
                                    nullptr};

const cudart::RuntimeTable& ours() {
  static void* const library = dlopen(SLUICE_TEST_LIB_DIR "/libsluice.so", RTLD_NOW | RTLD_LOCAL);
  auto* table = library ? static_cast<const cudart::RuntimeTable*>(dlsym(library, "sluice_runtime"))
                        : nullptr;
  if (table == nullptr) std::abort();
  return *table;
}

TEST(Bind, whole_runtime_is_planned_and_user_functions_are_left_alone) {
  auto plan = plan_binding(kPrograms + "/runtime_whole", known);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->entries.size(), 3u);
  EXPECT_EQ(plan->major, 13);
}

TEST(Bind, what_the_compiler_writes_between_the_runtimes_functions_is_left_alone) {
  auto plan = plan_binding(kPrograms + "/runtime_interleaved", known);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->entries.size(), 3u);
}

TEST(Bind, wrapper_of_another_versions_name_elsewhere_in_the_object_is_left_alone) {
  auto plan = plan_binding(kPrograms + "/runtime_wrapper", known);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->major, 13);
  EXPECT_EQ(plan->entries.size(), 4u);
}

TEST(Bind, runtime_of_an_older_version_is_bound_to_that_versions_functions) {
  auto plan = plan_binding(kPrograms + "/runtime_older", known);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->major, 12);
  EXPECT_EQ(std::count_if(plan->entries.begin(), plan->entries.end(),
                          [](const Entry& entry) {
                            return entry.target == reinterpret_cast<void*>(&older_target);
                          }),
            1);
}

TEST(Bind, names_of_several_versions_refuse_the_object) {
  const cudart::Entry split[] = {{"__cudaRegisterFatBinary", {&target, &target, &target}},
                                 {"cudaFree", {&target, nullptr, nullptr}},
                                 {"cudaMalloc", {&target, &target, &target}},
                                 {"cudaThreadExit", {nullptr, &target, &target}}};
  auto plan = plan_binding(kPrograms + "/runtime_older",
                           {cudart::kRuntimeTableLayout, split, &kKnownCount, &serve, nullptr});
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("cudaThreadExit"), std::string::npos) << plan.error().message;
}

TEST(Bind, unknown_function_of_the_runtime_refuses_the_object) {
  auto plan = plan_binding(kPrograms + "/runtime_unknown", known);
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("cudaFromTheFuture"), std::string::npos);
}

TEST(Bind, function_too_short_for_the_jump_refuses_the_object) {
  auto plan = plan_binding(kPrograms + "/runtime_short", known);
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("cudaFree"), std::string::npos);
}

TEST(Bind, stripped_runtime_refuses_the_object) {
  auto plan = plan_binding(kPrograms + "/runtime_stripped", known);
  ASSERT_FALSE(plan);
  EXPECT_NE(plan.error().message.find("-cudart shared"), std::string::npos);
}

TEST(Bind, objects_without_a_runtime_need_nothing) {
  for (const char* path : {"/proc/self/exe", "/bin/sh", "/dev/null", "/no/such/file"}) {
    auto plan = plan_binding(path, known);
    ASSERT_TRUE(plan) << path << ": " << plan.error().message;
    EXPECT_TRUE(plan->entries.empty()) << path;
  }
}

TEST(Bind, damaged_files_are_survived) {
  std::ifstream whole(kPrograms + "/runtime_whole", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(whole)), {});
  const std::string path = testing::TempDir() + "sluice_bind_damaged." + std::to_string(::getpid());
  ASSERT_GT(bytes.size(), 4096u);
  // Headers are at both ends of the file: cut it at every step, and put rubbish into the header.
  for (std::size_t size = 0; size < bytes.size(); size += 97) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(size));
    (void)plan_binding(path, known);
  }
  for (std::size_t at = 16; at < 64; ++at) {
    std::string damaged = bytes;
    damaged[at] = '\xff';
    std::ofstream(path, std::ios::binary) << damaged;
    (void)plan_binding(path, known);
  }
  std::remove(path.c_str());
}

TEST(Bind, every_function_of_a_static_runtime_has_a_target_in_ours) {
  auto plan = plan_binding(kPrograms + "/program_static", ours());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_GT(plan->entries.size(), 400u);
  EXPECT_EQ(plan->major, 13);
}

TEST(Bind, every_function_of_a_static_runtime_of_cuda_12_and_11_has_a_target_in_ours) {
  for (const int major : {12, 11}) {
    auto plan = plan_binding(kPrograms + "/older_static_" + std::to_string(major), ours());
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_GT(plan->entries.size(), 380u);
    EXPECT_EQ(plan->major, major);
  }
}

class Exports : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cudart, Exports, testing::Values("13", "12", "11.0"),
                         [](const auto& which) { return std::string(which.param, 2); });

TEST_P(Exports, every_name_of_that_version_is_exported_under_its_node) {
  const std::string node = std::string("libcudart.so.") + GetParam();
  void* library = dlopen((SLUICE_TEST_LIB_DIR "/" + node).c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  std::ifstream names(SLUICE_TEST_NAMES_DIR "/names_" + std::string(GetParam(), 2) + ".txt");
  int count = 0;
  for (std::string name; std::getline(names, name); ++count)
    EXPECT_NE(dlvsym(library, name.c_str(), node.c_str()), nullptr) << name;
  EXPECT_GT(count, 390);
  EXPECT_NE(dlsym(library, "sluice_cudart_abi"), nullptr);
}

TEST(Names, no_version_has_lost_a_name) {
  // What programs were linked against never changes: older/names_NN.txt are lists of the past.
  std::ifstream all(SLUICE_TEST_NAMES_DIR "/names_12.txt");
  const std::set<std::string> names{std::istream_iterator<std::string>(all), {}};
  for (const char* name : {"cudaGetDeviceProperties_v2", "cudaThreadExit", "cudaMemAdvise_v2",
                           "cudaStreamGetCaptureInfo_v3_ptsz", "__cudaLaunchKernel"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const char* name : {"cudaLogsCurrent", "cudaBindTexture", "__cudaGetProcAddress"})
    EXPECT_FALSE(names.contains(name)) << name;
}

}  // namespace
}  // namespace sluice::bind
