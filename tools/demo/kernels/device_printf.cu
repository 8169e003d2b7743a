// printf in a kernel: the text appears on the program's own stdout, in order, when the program synchronises.
#include "check.h"

#include <string>
#include <unistd.h>

__global__ void greet(int round, int* taken) {
  if (threadIdx.x == 0) *taken = printf("round %d: %s from block %u, %.2f and %llx\n", round, "hello", blockIdx.x,
                                        0.25 * round, 0x123456789ABCull);
}

/// Whatever main() lets the kernels print, read back through a pipe.
std::string printed(int rounds, int* taken) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(1);
  std::fflush(stdout);
  const int screen = dup(1);
  dup2(ends[1], 1);
  for (int round = 0; round < rounds; ++round) greet<<<1, 64>>>(round, taken);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::fflush(stdout);
  dup2(screen, 1);
  close(ends[1]);
  std::string out;
  char buffer[512];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<size_t>(got));
  return out;
}

int main() {
  int taken = 0;
  int* dtaken = device_copy(&taken, 1);
  const std::string got = printed(3, dtaken);
  const std::string expected = "round 0: hello from block 0, 0.00 and 123456789abc\n"
                               "round 1: hello from block 0, 0.25 and 123456789abc\n"
                               "round 2: hello from block 0, 0.50 and 123456789abc\n";
  check(cudaMemcpy(&taken, dtaken, sizeof taken, cudaMemcpyDeviceToHost), "copying back");
  if (got != expected || taken != 5) {
    std::fprintf(stderr, "device_printf: %d arguments taken, and the kernels printed\n%s", taken, got.c_str());
    return 1;
  }
  std::printf("device_printf: 3 lines of 3 kernels, in order: %s", expected.substr(0, expected.find('\n') + 1).c_str());
  return 0;
}
