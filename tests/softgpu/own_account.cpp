// Tests run side by side, and several compare what is in use: each process has the memory of a
// software GPU to itself.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

struct OwnAccount {
  const std::string name = "own_" + std::to_string(::getpid());
  const pid_t pid = ::getpid();
  OwnAccount() { ::setenv("SOFTGPU_ACCOUNT", name.c_str(), 0); }  // 0: a test may have named one
  ~OwnAccount() {
    if (::getpid() != pid) return;  // a forked child
    std::error_code ignored;
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm", ignored))
      if (file.path().filename().string().find("-" + name + "-") != std::string::npos)
        std::filesystem::remove(file.path(), ignored);
  }
};
const OwnAccount g_account;

}  // namespace
