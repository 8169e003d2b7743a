// PTX with a variable of any size, for clients that load modules.
#pragma once

#include <cuda.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <string>

/// One kernel and, if `bytes` is not 0, a variable "big" of so many.
inline std::string image_with_variable(std::size_t bytes) {
  std::string text = ".version 7.0\n.target sm_75\n.address_size 64\n";
  if (bytes > 0) text += ".visible .global .align 16 .b8 big[" + std::to_string(bytes) + "];\n";
  return text + ".visible .entry nothing()\n{\n ret;\n}\n";
}

inline const char* name_of(CUresult result) {
  const char* name = "unknown";
  cuGetErrorName(result, &name);
  return name;
}

/// "failed NAME WHAT", and out.
inline void stop_on(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::printf("failed %s %s\n", name_of(result), what);
  std::fflush(stdout);
  _exit(3);
}
