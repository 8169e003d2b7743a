#include "shim/cudart/errors.h"

#include "common/log.h"
#include "shim/cudart/runtime.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

namespace sluice::cudart {
namespace {

struct ErrorText {
  cudaError_t code;
  const char* name;
  const char* text;
};

#define SLUICE_ERROR(code, text) \
  { code, #code, text }
// Ordered by number: looked up by binary search.
constexpr ErrorText kErrors[] = {
    SLUICE_ERROR(cudaSuccess, "no error"),
    SLUICE_ERROR(cudaErrorInvalidValue, "invalid argument"),
    SLUICE_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    SLUICE_ERROR(cudaErrorInitializationError, "initialization error"),
    SLUICE_ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    SLUICE_ERROR(cudaErrorProfilerDisabled,
                 "profiler disabled while using external profiling tool"),
    SLUICE_ERROR(cudaErrorProfilerNotInitialized, "profiler not initialized"),
    SLUICE_ERROR(cudaErrorProfilerAlreadyStarted, "profiler already started"),
    SLUICE_ERROR(cudaErrorProfilerAlreadyStopped, "profiler already stopped"),
    SLUICE_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    SLUICE_ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    SLUICE_ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    SLUICE_ERROR(cudaErrorInvalidHostPointer, "invalid host pointer"),
    SLUICE_ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    SLUICE_ERROR(cudaErrorInvalidTexture, "invalid texture reference"),
    SLUICE_ERROR(cudaErrorInvalidTextureBinding, "texture is not bound to a pointer"),
    SLUICE_ERROR(cudaErrorInvalidChannelDescriptor, "invalid channel descriptor"),
    SLUICE_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    SLUICE_ERROR(cudaErrorAddressOfConstant, "the address of a constant was taken"),
    SLUICE_ERROR(cudaErrorTextureFetchFailed, "fetch from texture failed"),
    SLUICE_ERROR(cudaErrorTextureNotBound, "cannot fetch from a texture that is not bound"),
    SLUICE_ERROR(cudaErrorSynchronizationError, "incorrect use of __syncthreads()"),
    SLUICE_ERROR(cudaErrorInvalidFilterSetting, "linear filtering not supported for this texture"),
    SLUICE_ERROR(cudaErrorInvalidNormSetting, "texture cannot be read as normalized floats"),
    SLUICE_ERROR(cudaErrorMixedDeviceExecution, "device emulation cannot be mixed with execution"),
    SLUICE_ERROR(cudaErrorNotYetImplemented, "feature not yet implemented"),
    SLUICE_ERROR(cudaErrorMemoryValueTooLarge, "memory size or pointer value too large to fit"),
    SLUICE_ERROR(cudaErrorStubLibrary, "CUDA driver is a stub library"),
    SLUICE_ERROR(cudaErrorInsufficientDriver,
                 "CUDA driver version is insufficient for CUDA runtime version"),
    SLUICE_ERROR(cudaErrorCallRequiresNewerDriver, "API call is not supported in this driver"),
    SLUICE_ERROR(cudaErrorInvalidSurface, "invalid surface reference"),
    SLUICE_ERROR(cudaErrorDuplicateVariableName, "duplicate global variable looked up by name"),
    SLUICE_ERROR(cudaErrorDuplicateTextureName, "duplicate texture looked up by name"),
    SLUICE_ERROR(cudaErrorDuplicateSurfaceName, "duplicate surface looked up by name"),
    SLUICE_ERROR(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    SLUICE_ERROR(cudaErrorIncompatibleDriverContext, "incompatible driver context"),
    SLUICE_ERROR(cudaErrorMissingConfiguration, "the kernel launch was not configured"),
    SLUICE_ERROR(cudaErrorPriorLaunchFailure, "an earlier kernel launch failed"),
    SLUICE_ERROR(cudaErrorLaunchMaxDepthExceeded, "launch would exceed maximum depth of nesting"),
    SLUICE_ERROR(cudaErrorLaunchFileScopedTex, "launch uses a file-scoped texture"),
    SLUICE_ERROR(cudaErrorLaunchFileScopedSurf, "launch uses a file-scoped surface"),
    SLUICE_ERROR(cudaErrorSyncDepthExceeded, "too many levels of nested synchronization"),
    SLUICE_ERROR(cudaErrorLaunchPendingCountExceeded, "too many pending nested launches"),
    SLUICE_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    SLUICE_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    SLUICE_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    SLUICE_ERROR(cudaErrorDeviceNotLicensed, "the device has no valid license"),
    SLUICE_ERROR(cudaErrorSoftwareValidityNotEstablished, "integrity checks failed"),
    SLUICE_ERROR(cudaErrorStartupFailure, "startup failure in cuda runtime"),
    SLUICE_ERROR(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    SLUICE_ERROR(cudaErrorDeviceUninitialized, "invalid device context"),
    SLUICE_ERROR(cudaErrorMapBufferObjectFailed, "mapping of buffer object failed"),
    SLUICE_ERROR(cudaErrorUnmapBufferObjectFailed, "unmapping of buffer object failed"),
    SLUICE_ERROR(cudaErrorArrayIsMapped, "array is mapped"),
    SLUICE_ERROR(cudaErrorAlreadyMapped, "resource already mapped"),
    SLUICE_ERROR(cudaErrorNoKernelImageForDevice,
                 "no kernel image is available for execution on the device"),
    SLUICE_ERROR(cudaErrorAlreadyAcquired, "resource already acquired"),
    SLUICE_ERROR(cudaErrorNotMapped, "resource not mapped"),
    SLUICE_ERROR(cudaErrorNotMappedAsArray, "resource not mapped as array"),
    SLUICE_ERROR(cudaErrorNotMappedAsPointer, "resource not mapped as pointer"),
    SLUICE_ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    SLUICE_ERROR(cudaErrorUnsupportedLimit, "limit is not supported on this architecture"),
    SLUICE_ERROR(cudaErrorDeviceAlreadyInUse, "exclusive-thread device already in use"),
    SLUICE_ERROR(cudaErrorPeerAccessUnsupported,
                 "peer access is not supported between these two devices"),
    SLUICE_ERROR(cudaErrorInvalidPtx, "a PTX JIT compilation failed"),
    SLUICE_ERROR(cudaErrorInvalidGraphicsContext, "invalid OpenGL or DirectX context"),
    SLUICE_ERROR(cudaErrorNvlinkUncorrectable, "uncorrectable NVLink error during the execution"),
    SLUICE_ERROR(cudaErrorJitCompilerNotFound, "PTX JIT compiler library not found"),
    SLUICE_ERROR(cudaErrorUnsupportedPtxVersion,
                 "the provided PTX was compiled with an unsupported toolchain."),
    SLUICE_ERROR(cudaErrorJitCompilationDisabled, "PTX JIT compilation was disabled"),
    SLUICE_ERROR(cudaErrorUnsupportedExecAffinity, "the execution affinity is not supported"),
    SLUICE_ERROR(cudaErrorUnsupportedDevSideSync,
                 "the provided PTX contains unsupported call to cudaDeviceSynchronize"),
    SLUICE_ERROR(cudaErrorContained, "a contained error ended this process's use of the GPU"),
    SLUICE_ERROR(cudaErrorInvalidSource, "device kernel source is invalid"),
    SLUICE_ERROR(cudaErrorFileNotFound, "file not found"),
    SLUICE_ERROR(cudaErrorSharedObjectSymbolNotFound, "shared object symbol not found"),
    SLUICE_ERROR(cudaErrorSharedObjectInitFailed, "shared object initialization failed"),
    SLUICE_ERROR(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    SLUICE_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    SLUICE_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    SLUICE_ERROR(cudaErrorLossyQuery, "the query would lose information"),
    SLUICE_ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    SLUICE_ERROR(cudaErrorNotReady, "device not ready"),
    SLUICE_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    SLUICE_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    SLUICE_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    SLUICE_ERROR(cudaErrorLaunchIncompatibleTexturing, "launch uses incompatible texturing mode"),
    SLUICE_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    SLUICE_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    SLUICE_ERROR(cudaErrorSetOnActiveProcess, "cannot set while device is active in this process"),
    SLUICE_ERROR(cudaErrorContextIsDestroyed, "context is destroyed"),
    SLUICE_ERROR(cudaErrorAssert, "device-side assert triggered"),
    SLUICE_ERROR(cudaErrorTooManyPeers, "peer mapping resources exhausted"),
    SLUICE_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                 "part or all of the requested memory range is already mapped"),
    SLUICE_ERROR(cudaErrorHostMemoryNotRegistered,
                 "pointer does not correspond to a registered memory region"),
    SLUICE_ERROR(cudaErrorHardwareStackError, "hardware stack error"),
    SLUICE_ERROR(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    SLUICE_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    SLUICE_ERROR(cudaErrorInvalidAddressSpace,
                 "operation not supported on global/shared address space"),
    SLUICE_ERROR(cudaErrorInvalidPc, "invalid program counter"),
    SLUICE_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    SLUICE_ERROR(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    SLUICE_ERROR(cudaErrorTensorMemoryLeak, "a kernel left tensor memory allocated"),
    SLUICE_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    SLUICE_ERROR(cudaErrorNotSupported, "operation not supported"),
    SLUICE_ERROR(cudaErrorSystemNotReady, "system not yet initialized"),
    SLUICE_ERROR(cudaErrorSystemDriverMismatch,
                 "system has unsupported display driver / cuda driver combination"),
    SLUICE_ERROR(cudaErrorCompatNotSupportedOnDevice,
                 "forward compatibility was attempted on non supported HW"),
    SLUICE_ERROR(cudaErrorMpsConnectionFailed, "MPS client failed to connect to the server"),
    SLUICE_ERROR(cudaErrorMpsRpcFailure, "a call between MPS server and client failed"),
    SLUICE_ERROR(cudaErrorMpsServerNotReady, "MPS server is not ready for new clients"),
    SLUICE_ERROR(cudaErrorMpsMaxClientsReached, "maximum number of MPS clients reached"),
    SLUICE_ERROR(cudaErrorMpsMaxConnectionsReached, "maximum number of MPS connections reached"),
    SLUICE_ERROR(cudaErrorMpsClientTerminated, "the MPS client was terminated by the server"),
    SLUICE_ERROR(cudaErrorCdpNotSupported, "nested launches are not supported here"),
    SLUICE_ERROR(cudaErrorCdpVersionMismatch, "nested launch versions do not fit each other"),
    SLUICE_ERROR(cudaErrorStreamCaptureUnsupported,
                 "operation not permitted when stream is capturing"),
    SLUICE_ERROR(cudaErrorStreamCaptureInvalidated,
                 "operation failed due to a previous error during capture"),
    SLUICE_ERROR(cudaErrorStreamCaptureMerge,
                 "operation would result in a merge of separate capture sequences"),
    SLUICE_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream"),
    SLUICE_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    SLUICE_ERROR(cudaErrorStreamCaptureIsolation,
                 "dependency created on uncaptured work in another stream"),
    SLUICE_ERROR(cudaErrorStreamCaptureImplicit,
                 "operation would make the legacy stream depend on a capturing blocking stream"),
    SLUICE_ERROR(cudaErrorCapturedEvent,
                 "operation not permitted on an event last recorded in a capturing stream"),
    SLUICE_ERROR(cudaErrorStreamCaptureWrongThread,
                 "attempt to terminate a thread-local capture sequence from another thread"),
    SLUICE_ERROR(cudaErrorTimeout, "wait operation timed out"),
    SLUICE_ERROR(cudaErrorGraphExecUpdateFailure,
                 "the graph update was not performed: the graphs differ too much"),
    SLUICE_ERROR(cudaErrorExternalDevice, "an asynchronous error occurred outside of CUDA"),
    SLUICE_ERROR(cudaErrorInvalidClusterSize, "a kernel launch error due to cluster size"),
    SLUICE_ERROR(cudaErrorFunctionNotLoaded, "function is not loaded"),
    SLUICE_ERROR(cudaErrorInvalidResourceType, "invalid resource type"),
    SLUICE_ERROR(cudaErrorInvalidResourceConfiguration, "insufficient or invalid resources"),
    SLUICE_ERROR(cudaErrorUnknown, "unknown error"),
    SLUICE_ERROR(cudaErrorApiFailureBase, "api failure base"),
};
#undef SLUICE_ERROR

const ErrorText* find_error(int code) noexcept {
  const auto* found =
      std::lower_bound(std::begin(kErrors), std::end(kErrors), code,
                       [](const ErrorText& entry, int wanted) { return entry.code < wanted; });
  return found != std::end(kErrors) && found->code == code ? found : nullptr;
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
  return entry != nullptr ? entry->name : "unrecognized error code";
}

SLUICE_CUDART_API const char* cudaGetErrorString(cudaError_t error) {
  const auto* entry = sluice::cudart::find_error(error);
  return entry != nullptr ? entry->text : "unrecognized error code";
}
