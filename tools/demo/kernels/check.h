// What every program here does when a call fails.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

template <class T>
T* device_copy(const T* from, size_t count) {
  T* out = nullptr;
  check(cudaMalloc(&out, count * sizeof(T)), "cudaMalloc");
  check(cudaMemcpy(out, from, count * sizeof(T), cudaMemcpyHostToDevice), "copying to the device");
  return out;
}
