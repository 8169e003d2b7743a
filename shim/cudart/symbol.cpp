// Device variables by their host name.
#include "shim/cudart/registry.h"

using namespace sluice::cudart;
using sluice::DriverTable;

namespace {

/// The address of `bytes` bytes at `offset` inside a variable.
cudaError_t place(const void* symbol, std::size_t offset, std::size_t bytes, void** memory) {
  return with_context([&](const DriverTable& cu) {
    CUdeviceptr start = 0;
    std::size_t size = 0;
    if (cudaError_t error = registry().symbol(cu, symbol, &start, &size); error != cudaSuccess)
      return error;
    if (offset > size || bytes > size - offset) return cudaErrorInvalidValue;
    *memory = pointer(start + offset);
    return cudaSuccess;
  });
}

bool writes_device(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice ||
         kind == cudaMemcpyDefault;
}
bool reads_device(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice ||
         kind == cudaMemcpyDefault;
}

}  // namespace

SLUICE_CUDART_API cudaError_t cudaGetSymbolAddress(void** memory, const void* symbol) {
  if (memory == nullptr) return record(cudaErrorInvalidValue);
  return place(symbol, 0, 0, memory);
}

SLUICE_CUDART_API cudaError_t cudaGetSymbolSize(std::size_t* size, const void* symbol) {
  if (size == nullptr) return record(cudaErrorInvalidValue);
  return with_context([&](const DriverTable& cu) {
    CUdeviceptr start = 0;
    return registry().symbol(cu, symbol, &start, size);
  });
}

SLUICE_CUDART_API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from,
                                                 std::size_t bytes, std::size_t offset,
                                                 cudaMemcpyKind kind) {
  void* to = nullptr;
  if (!writes_device(kind)) return record(cudaErrorInvalidMemcpyDirection);
  const cudaError_t error = place(symbol, offset, bytes, &to);
  return error == cudaSuccess ? cudaMemcpy(to, from, bytes, kind) : error;
}

SLUICE_CUDART_API cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from,
                                                      std::size_t bytes, std::size_t offset,
                                                      cudaMemcpyKind kind, cudaStream_t stream) {
  void* to = nullptr;
  if (!writes_device(kind)) return record(cudaErrorInvalidMemcpyDirection);
  const cudaError_t error = place(symbol, offset, bytes, &to);
  return error == cudaSuccess ? cudaMemcpyAsync(to, from, bytes, kind, stream) : error;
}

SLUICE_CUDART_API cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes,
                                                   std::size_t offset, cudaMemcpyKind kind) {
  void* from = nullptr;
  if (!reads_device(kind)) return record(cudaErrorInvalidMemcpyDirection);
  const cudaError_t error = place(symbol, offset, bytes, &from);
  return error == cudaSuccess ? cudaMemcpy(to, from, bytes, kind) : error;
}

SLUICE_CUDART_API cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol,
                                                        std::size_t bytes, std::size_t offset,
                                                        cudaMemcpyKind kind, cudaStream_t stream) {
  void* from = nullptr;
  if (!reads_device(kind)) return record(cudaErrorInvalidMemcpyDirection);
  const cudaError_t error = place(symbol, offset, bytes, &from);
  return error == cudaSuccess ? cudaMemcpyAsync(to, from, bytes, kind, stream) : error;
}
