// For programs that tests start: how they end when a CUDA call fails.
#pragma once

#include <cuda.h>
#include <unistd.h>

#include <cstdio>

/// Ends the program with status 3 and a line "failed NAME WHAT", unless `result` is CUDA_SUCCESS.
inline void stop_on(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = "unknown";
  cuGetErrorName(result, &name);
  std::printf("failed %s %s\n", name, what);
  std::fflush(stdout);
  _exit(3);
}
