// Events, and handles of events and memory for other processes.
#include "shim/cudart/runtime.h"

#include <cstring>

using namespace sluice::cudart;
using sluice::DriverTable;

SLUICE_CUDART_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return with_context([&](const DriverTable& cu) { return cu.cuEventCreate(event, flags); });
}

SLUICE_CUDART_API cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

SLUICE_CUDART_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return with_context([&](const DriverTable& cu) { return cu.cuEventDestroy_v2(event); });
}

SLUICE_CUDART_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) { return cu.cuEventRecord(event, stream); });
}

SLUICE_CUDART_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                                       unsigned flags) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuEventRecordWithFlags(event, stream, flags); });
}

SLUICE_CUDART_API cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_context([&](const DriverTable& cu) { return cu.cuEventQuery(event); });
}

SLUICE_CUDART_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_context([&](const DriverTable& cu) { return cu.cuEventSynchronize(event); });
}

SLUICE_CUDART_API cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuEventElapsedTime_v2(ms, start, end); });
}

SLUICE_CUDART_API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle,
                                                    cudaEvent_t event) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuIpcGetEventHandle(same_layout<CUipcEventHandle*>(handle), event);
  });
}

SLUICE_CUDART_API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event,
                                                     cudaIpcEventHandle_t handle) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuIpcOpenEventHandle(event, *same_layout<CUipcEventHandle*>(&handle));
  });
}

SLUICE_CUDART_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuIpcGetMemHandle(same_layout<CUipcMemHandle*>(handle), address(memory));
  });
}

SLUICE_CUDART_API cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle,
                                                   unsigned flags) {
  if (memory == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUdeviceptr address = 0;
    CUresult result =
        cu.cuIpcOpenMemHandle_v2(&address, *same_layout<CUipcMemHandle*>(&handle), flags);
    *memory = pointer(address);
    return result;
  });
}

SLUICE_CUDART_API cudaError_t cudaIpcCloseMemHandle(void* memory) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuIpcCloseMemHandle(address(memory)); });
}
