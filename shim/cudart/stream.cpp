// Streams: the driver's handles as they are, including the two reserved ones.
#include "shim/cudart/runtime.h"

#include <memory>
#include <new>

using namespace sluice::cudart;
using sluice::DriverTable;

SLUICE_CUDART_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return with_context([&](const DriverTable& cu) { return cu.cuStreamCreate(stream, flags); });
}

SLUICE_CUDART_API cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

SLUICE_CUDART_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                           int priority) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuStreamCreateWithPriority(stream, flags, priority);
  });
}

SLUICE_CUDART_API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) { return cu.cuStreamDestroy_v2(stream); });
}

SLUICE_CUDART_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) { return cu.cuStreamSynchronize(stream); });
}

SLUICE_CUDART_API cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) { return cu.cuStreamQuery(stream); });
}

SLUICE_CUDART_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                                  unsigned flags) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuStreamWaitEvent(stream, event, flags); });
}

SLUICE_CUDART_API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return with_context([&](const DriverTable& cu) { return cu.cuStreamGetFlags(stream, flags); });
}

SLUICE_CUDART_API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuStreamGetPriority(stream, priority); });
}

SLUICE_CUDART_API cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return with_context([&](const DriverTable& cu) { return cu.cuStreamGetId(stream, id); });
}

SLUICE_CUDART_API cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  if (device == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUdevice handle = 0;
    CUresult result = cu.cuStreamGetDevice(stream, &handle);
    if (result == CUDA_SUCCESS) *device = runtime().ordinal_of(handle);
    return result;
  });
}

SLUICE_CUDART_API cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
  return with_context([&](const DriverTable& cu) { return cu.cuStreamCopyAttributes(to, from); });
}

SLUICE_CUDART_API cudaError_t cudaStreamGetAttribute(cudaStream_t stream,
                                                     cudaLaunchAttributeID attribute,
                                                     cudaLaunchAttributeValue* value) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuStreamGetAttribute(stream, static_cast<CUstreamAttrID>(attribute),
                                   same_layout<CUstreamAttrValue*>(value));
  });
}

SLUICE_CUDART_API cudaError_t cudaStreamSetAttribute(cudaStream_t stream,
                                                     cudaLaunchAttributeID attribute,
                                                     const cudaLaunchAttributeValue* value) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuStreamSetAttribute(stream, static_cast<CUstreamAttrID>(attribute),
                                   same_layout<const CUstreamAttrValue*>(value));
  });
}

SLUICE_CUDART_API cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* memory,
                                                       std::size_t bytes, unsigned flags) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuStreamAttachMemAsync(stream, address(memory), bytes, flags);
  });
}

SLUICE_CUDART_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                                                 void* user_data) {
  return with_context(
      [&](const DriverTable& cu) { return cu.cuLaunchHostFunc(stream, function, user_data); });
}

namespace {

// The application's callback takes a runtime error; one of these lives until it has run.
struct StreamCallback {
  cudaStreamCallback_t function;
  void* user_data;
};

void CUDA_CB run_callback(CUstream stream, CUresult result, void* data) {
  std::unique_ptr<StreamCallback> callback(static_cast<StreamCallback*>(data));
  callback->function(stream, to_runtime(result), callback->user_data);
}

}  // namespace

SLUICE_CUDART_API cudaError_t cudaStreamAddCallback(cudaStream_t stream,
                                                    cudaStreamCallback_t function, void* user_data,
                                                    unsigned flags) {
  if (function == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    auto callback = std::make_unique<StreamCallback>(StreamCallback{function, user_data});
    CUresult result = cu.cuStreamAddCallback(stream, &run_callback, callback.get(), flags);
    if (result == CUDA_SUCCESS) (void)callback.release();  // run_callback owns it now
    return result;
  });
}
