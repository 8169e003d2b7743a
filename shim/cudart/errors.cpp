#include "shim/cudart/errors.h"

#include "common/log.h"
#include "shim/cudart/runtime.h"
#include "shim/error_text.h"

#include <set>
#include <string_view>

namespace sluice::cudart {
namespace {

/// Null for numbers that are no runtime error.
const shim::ErrorText* find_error(int code) noexcept {
  const shim::ErrorText* found = shim::find_error_text(code);
  return found != nullptr && found->runtime != nullptr ? found : nullptr;
}

}  // namespace

cudaError_t to_runtime(CUresult result) noexcept {
  if (result == CUDA_SUCCESS) return cudaSuccess;
  // Numbers that only the driver API has (a context that is already current) have no counterpart.
  return find_error(result) != nullptr ? static_cast<cudaError_t>(result) : cudaErrorUnknown;
}

bool is_sticky(cudaError_t error) noexcept {
  switch (static_cast<int>(error)) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
      return true;
    default:
      return false;
  }
}

int unsupported_call(const char* function) noexcept {
  static std::mutex* const mutex = new std::mutex;  // leaked: stubs may be called at exit
  static auto* const named = new std::set<std::string_view>;
  std::lock_guard lock(*mutex);
  // The names are literals of the generated stubs and live as long as the process.
  if (named->insert(function).second)
    SLUICE_LOG_WARN("shim", "{} is not supported by Sluice's CUDA runtime", function);
  return record(cudaErrorNotSupported);
}

}  // namespace sluice::cudart

using sluice::cudart::thread_state;

SLUICE_CUDART_API cudaError_t cudaGetLastError() {
  auto& state = thread_state();
  const cudaError_t error = state.last_error;
  if (!sluice::cudart::is_sticky(error)) state.last_error = cudaSuccess;
  return error;
}

SLUICE_CUDART_API cudaError_t cudaPeekAtLastError() {
  return thread_state().last_error;
}

SLUICE_CUDART_API const char* cudaGetErrorName(cudaError_t error) {
  const auto* entry = sluice::cudart::find_error(error);
  return entry != nullptr ? entry->runtime : "unrecognized error code";
}

SLUICE_CUDART_API const char* cudaGetErrorString(cudaError_t error) {
  const auto* entry = sluice::cudart::find_error(error);
  return entry != nullptr ? entry->text : "unrecognized error code";
}
