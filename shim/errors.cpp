#include "shim/errors.h"

#include "shim/error_text.h"

#include <algorithm>
#include <array>

namespace sluice::shim {

bool is_sticky(CUresult result) noexcept {
  constexpr std::array kSticky = {CUDA_ERROR_ECC_UNCORRECTABLE,
                                  CUDA_ERROR_NVLINK_UNCORRECTABLE,
                                  CUDA_ERROR_ILLEGAL_ADDRESS,
                                  CUDA_ERROR_LAUNCH_TIMEOUT,
                                  CUDA_ERROR_ASSERT,
                                  CUDA_ERROR_HARDWARE_STACK_ERROR,
                                  CUDA_ERROR_ILLEGAL_INSTRUCTION,
                                  CUDA_ERROR_MISALIGNED_ADDRESS,
                                  CUDA_ERROR_INVALID_ADDRESS_SPACE,
                                  CUDA_ERROR_INVALID_PC,
                                  CUDA_ERROR_LAUNCH_FAILED,
                                  CUDA_ERROR_DEVICE_UNAVAILABLE,
                                  CUDA_ERROR_MPS_CLIENT_TERMINATED};
  return std::find(kSticky.begin(), kSticky.end(), result) != kSticky.end();
}

const char* error_name(CUresult result) noexcept {
  const ErrorText* entry = find_error_text(result);
  return entry != nullptr ? entry->driver : nullptr;
}

const char* error_text(CUresult result) noexcept {
  const ErrorText* entry = find_error_text(result);
  return entry != nullptr && entry->driver != nullptr ? entry->text : nullptr;
}

}  // namespace sluice::shim
