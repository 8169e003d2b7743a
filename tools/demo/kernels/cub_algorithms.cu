// CUB of the CUDA toolkit: reduction, prefix sum (decoupled look-back) and radix sort, checked against the CPU.
#include "check.h"

#include <cub/cub.cuh>

#include <algorithm>
#include <numeric>
#include <vector>

/// CUB's calls come in pairs: the first one asks how much temporary memory the second one needs.
template <class Call>
void with_temporary(const char* what, Call call) {
  void* memory = nullptr;
  size_t bytes = 0;
  check(call(memory, bytes), what);
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  check(call(memory, bytes), what);
  check(cudaFree(memory), what);
}

template <class T>
bool is_equal(const char* what, const T* device, const std::vector<T>& expected) {
  std::vector<T> got(expected.size());
  check(cudaMemcpy(got.data(), device, got.size() * sizeof(T), cudaMemcpyDeviceToHost), what);
  const auto [at, wanted] = std::mismatch(got.begin(), got.end(), expected.begin());
  if (at == got.end()) return true;
  std::fprintf(stderr, "cub_algorithms: %s: element %td is wrong\n", what, at - got.begin());
  return false;
}

int main() {
  const int n = 200003;
  std::vector<int> in(n), scanned(n), sorted;
  for (int i = 0; i < n; ++i) in[i] = static_cast<int>((i * 2654435761u) >> 12) - 500000;
  std::exclusive_scan(in.begin(), in.end(), scanned.begin(), 0);
  sorted = in;
  std::sort(sorted.begin(), sorted.end());
  int* din = device_copy(in.data(), in.size());
  int* dout = device_copy(in.data(), in.size());

  with_temporary("DeviceReduce::Sum", [&](void* memory, size_t& bytes) {
    return cub::DeviceReduce::Sum(memory, bytes, din, dout, n);
  });
  bool is_right = is_equal("reduce", dout, {std::accumulate(in.begin(), in.end(), 0)});
  with_temporary("DeviceScan::ExclusiveSum", [&](void* memory, size_t& bytes) {
    return cub::DeviceScan::ExclusiveSum(memory, bytes, din, dout, n);
  });
  is_right = is_equal("scan", dout, scanned) && is_right;
  with_temporary("DeviceRadixSort::SortKeys", [&](void* memory, size_t& bytes) {
    return cub::DeviceRadixSort::SortKeys(memory, bytes, din, dout, n);
  });
  is_right = is_equal("sort", dout, sorted) && is_right;
  if (!is_right) return 1;
  std::printf("cub_algorithms: reduce, scan and sort of %d numbers correct\n", n);
  return 0;
}
