// Linked to libcuda.so.1 by name.
#include <cstdio>

extern "C" int cuInit(unsigned);

int main() {
  const int result = cuInit(0);
  std::printf("cuInit %d\n", result);
  return result;
}
