#include "tests/ptx/cooperation.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace sluice::softgpu::test {

void expect_ptxas_accepts(const std::string& ptx, const std::string& architecture) {
#ifdef PTXAS
  static int number = 0;
  const std::string file = testing::TempDir() + "softgpu_" + std::to_string(getpid()) + "_" +
                           std::to_string(number++) + ".ptx";
  std::ofstream(file) << ptx;
  const std::string command =
      std::string(PTXAS) + " -arch=" + architecture + " -O0 -o /dev/null " + file;
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::remove(file.c_str());
#else
  static_cast<void>(ptx);
  static_cast<void>(architecture);
#endif
}

}  // namespace sluice::softgpu::test
