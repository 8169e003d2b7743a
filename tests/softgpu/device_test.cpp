// If these fail, two GPUs of a pool look like one, or one GPU like another after a restart.
#include "tests/cuda/fixture.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace sluice::test {
namespace {

/// What the test below reads of another process.
TEST(DeviceUuid, DISABLED_Print) {
  ASSERT_OK(cuInit(0));
  int count = 0;
  ASSERT_OK(cuDeviceGetCount(&count));
  for (int i = 0; i < count; ++i) {
    CUuuid uuid{};
    ASSERT_OK(cuDeviceGetUuid(&uuid, i));
    std::printf("uuid ");
    for (const char c : uuid.bytes) std::printf("%02x", static_cast<unsigned char>(c));
    std::printf("\n");
  }
}

std::vector<std::string> uuids(const std::string& environment) {
  const std::string command = "env SOFTGPU_DEVICES=2 " + environment + " /proc/" +
                              std::to_string(::getpid()) +
                              "/exe --gtest_also_run_disabled_tests "
                              "--gtest_filter=DeviceUuid.DISABLED_Print 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> out(::popen(command.c_str(), "r"), ::pclose);
  std::vector<std::string> found;
  char line[256];
  while (out != nullptr && std::fgets(line, sizeof line, out.get()) != nullptr)
    if (std::string(line).starts_with("uuid ")) found.emplace_back(line);
  return found;
}

TEST(DeviceUuid, IsOfTheAccountAndTheOrdinal) {
  const auto mine = uuids(""), again = uuids("");
  const std::string other_account = "other_" + std::to_string(::getpid());
  const auto others = uuids("SOFTGPU_ACCOUNT=" + other_account);
  const std::string cleanup = "rm -f /dev/shm/softgpu-*-" + other_account + "-*";
  EXPECT_EQ(0, std::system(cleanup.c_str()));
  ASSERT_EQ(2u, mine.size());
  ASSERT_EQ(2u, others.size());
  EXPECT_EQ(mine, again) << "another process";
  EXPECT_NE(mine[0], mine[1]) << "another device";
  EXPECT_NE(mine[0], others[0]) << "another account";
  EXPECT_NE(mine[1], others[0]);
}

}  // namespace
}  // namespace sluice::test
