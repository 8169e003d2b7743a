// Linked to a library that has a static runtime.
#include <cstdio>

extern "C" int plugin_run();

int main() {
  const int status = plugin_run();
  std::printf("plugin %d\n", status);
  return status;
}
