// Goal: an object is bound wholly or not at all. Method: plan the binding of small objects in
// several states of repair, and of a real program, without running anything of them.
#include "shim/bind/bind.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace sluice::bind {
namespace {

const std::string kPrograms = SLUICE_TEST_PROGRAMS;

void* known(const char* name) {
  static const std::set<std::string> names = {"cudaMalloc", "cudaFree", "__cudaRegisterFatBinary"};
  return names.contains(name) ? const_cast<char*>("target") : nullptr;
}

void* ours(const char* name) {
  static void* const library =
      dlopen(SLUICE_TEST_LIB_DIR "/libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
  return library ? dlsym(library, name) : nullptr;
}

TEST(Bind, whole_runtime_is_planned_and_user_functions_are_left_alone) {
  auto plan = plan_binding(kPrograms + "/runtime_whole", known);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->size(), 3u);
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
    EXPECT_TRUE(plan->empty()) << path;
  }
}

TEST(Bind, damaged_files_are_survived) {
  std::ifstream whole(kPrograms + "/runtime_whole", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(whole)), {});
  const std::string path = testing::TempDir() + "sluice_bind_damaged";
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
  auto plan = plan_binding(kPrograms + "/program_static", ours);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_GT(plan->size(), 400u);
}

TEST(Exports, every_name_of_the_headers_is_exported) {
  std::ifstream names(SLUICE_TEST_NAMES);
  int count = 0;
  for (std::string name; std::getline(names, name); ++count)
    EXPECT_NE(ours(name.c_str()), nullptr) << name;
  EXPECT_GT(count, 400);
}

TEST(Exports, runtime_is_marked_as_ours) {
  EXPECT_NE(ours("sluice_cudart_abi"), nullptr);
}

}  // namespace
}  // namespace sluice::bind
