// Lets the simple kernels of kernels/*.cu compile as host code: the test sets the indices and calls
// the kernel per thread.
#pragma once

#include <cmath>

namespace sluice::softgpu::test {
struct Index {
  int x = 0;
};
inline Index blockIdx, blockDim, threadIdx;
}  // namespace sluice::softgpu::test

#define __global__
using sluice::softgpu::test::blockDim;
using sluice::softgpu::test::blockIdx;
using sluice::softgpu::test::threadIdx;
