// Error numbers of the two APIs: most are the same number, the rest has a rule of its own.
#pragma once

#include <cuda.h>
#include <driver_types.h>

namespace sluice::cudart {

cudaError_t to_runtime(CUresult result) noexcept;
inline cudaError_t to_runtime(cudaError_t error) noexcept {
  return error;
}
/// For callbacks and queries that take a driver result from the application.
inline CUresult to_driver(cudaError_t error) noexcept {
  return static_cast<CUresult>(error);
}

/// Errors that end the context: cudaGetLastError does not clear them.
bool is_sticky(cudaError_t error) noexcept;

/// For every function without support: logs the name once and returns cudaErrorNotSupported. An int
/// because the generated stubs that call it know no CUDA types.
int unsupported_call(const char* function) noexcept;

}  // namespace sluice::cudart
