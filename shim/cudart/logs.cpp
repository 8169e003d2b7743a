// The driver's log of errors, which CUDA 13 offers in both APIs.
#include "shim/cudart/runtime.h"

using namespace sluice::cudart;
using sluice::DriverTable;

SLUICE_CUDART_API cudaError_t cudaLogsRegisterCallback(cudaLogsCallback_t callback, void* user_data,
                                                       cudaLogsCallbackHandle* handle) {
  return with_driver([&](const DriverTable& cu) {
    // The same function type but for the name of the level's enum.
    return cu.cuLogsRegisterCallback(reinterpret_cast<CUlogsCallback>(callback), user_data, handle);
  });
}

SLUICE_CUDART_API cudaError_t cudaLogsUnregisterCallback(cudaLogsCallbackHandle handle) {
  return with_driver([&](const DriverTable& cu) { return cu.cuLogsUnregisterCallback(handle); });
}

SLUICE_CUDART_API cudaError_t cudaLogsCurrent(cudaLogIterator* iterator, unsigned flags) {
  return with_driver([&](const DriverTable& cu) { return cu.cuLogsCurrent(iterator, flags); });
}

SLUICE_CUDART_API cudaError_t cudaLogsDumpToFile(cudaLogIterator* iterator, const char* path,
                                                 unsigned flags) {
  return with_driver(
      [&](const DriverTable& cu) { return cu.cuLogsDumpToFile(iterator, path, flags); });
}

SLUICE_CUDART_API cudaError_t cudaLogsDumpToMemory(cudaLogIterator* iterator, char* buffer,
                                                   std::size_t* bytes, unsigned flags) {
  return with_driver(
      [&](const DriverTable& cu) { return cu.cuLogsDumpToMemory(iterator, buffer, bytes, flags); });
}
