// The names and descriptions of all errors, of the driver API and of the runtime API: most failures
// exist in both, with one number and one text.
#pragma once

namespace sluice::shim {

struct ErrorText {
  int number;
  const char* driver;   // "CUDA_ERROR_OUT_OF_MEMORY", null if it is the runtime's only
  const char* runtime;  // "cudaErrorMemoryAllocation", null if it is the driver's only
  const char* text;
};

/// Null for numbers that are no error of either.
const ErrorText* find_error_text(int number) noexcept;

}  // namespace sluice::shim
