// Linear copies and fills; peer copies.
#include "shim/cudart/runtime.h"

using namespace sluice::cudart;
using sluice::DriverTable;

namespace {

CUresult copy(const DriverTable& cu, void* to, const void* from, std::size_t bytes,
              cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cu.cuMemcpyHtoD_v2(address(to), from, bytes);
    case cudaMemcpyDeviceToHost:
      return cu.cuMemcpyDtoH_v2(to, address(from), bytes);
    case cudaMemcpyDeviceToDevice:
      return cu.cuMemcpyDtoD_v2(address(to), address(from), bytes);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return cu.cuMemcpy(address(to), address(from), bytes);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_async(const DriverTable& cu, void* to, const void* from, std::size_t bytes,
                    cudaMemcpyKind kind, cudaStream_t stream) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cu.cuMemcpyHtoDAsync_v2(address(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return cu.cuMemcpyDtoHAsync_v2(to, address(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return cu.cuMemcpyDtoDAsync_v2(address(to), address(from), bytes, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return cu.cuMemcpyAsync(address(to), address(from), bytes, stream);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

bool is_kind(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

/// Both primary contexts of a copy between devices.
struct Peers {
  CUcontext to = nullptr;
  CUcontext from = nullptr;
};

cudaError_t find_peers(const DriverTable& cu, int to, int from, Peers* peers) {
  cudaError_t error = runtime().primary(cu, to, &peers->to);
  return error == cudaSuccess ? runtime().primary(cu, from, &peers->from) : error;
}

}  // namespace

SLUICE_CUDART_API cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes,
                                         cudaMemcpyKind kind) {
  return with_context([&](const DriverTable& cu) {
    if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
    return bytes == 0 ? cudaSuccess : to_runtime(copy(cu, to, from, bytes, kind));
  });
}

SLUICE_CUDART_API cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                              cudaMemcpyKind kind, cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
    return bytes == 0 ? cudaSuccess : to_runtime(copy_async(cu, to, from, bytes, kind, stream));
  });
}

SLUICE_CUDART_API cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from,
                                             int from_device, std::size_t bytes) {
  return with_context([&](const DriverTable& cu) {
    Peers peers;
    if (cudaError_t error = find_peers(cu, to_device, from_device, &peers); error != cudaSuccess)
      return error;
    return to_runtime(cu.cuMemcpyPeer(address(to), peers.to, address(from), peers.from, bytes));
  });
}

SLUICE_CUDART_API cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from,
                                                  int from_device, std::size_t bytes,
                                                  cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    Peers peers;
    if (cudaError_t error = find_peers(cu, to_device, from_device, &peers); error != cudaSuccess)
      return error;
    return to_runtime(
        cu.cuMemcpyPeerAsync(address(to), peers.to, address(from), peers.from, bytes, stream));
  });
}

SLUICE_CUDART_API cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return with_context([&](const DriverTable& cu) {
    return bytes == 0 ? CUDA_SUCCESS
                      : cu.cuMemsetD8_v2(address(memory), static_cast<unsigned char>(value), bytes);
  });
}

SLUICE_CUDART_API cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes,
                                              cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    return bytes == 0 ? CUDA_SUCCESS
                      : cu.cuMemsetD8Async(address(memory), static_cast<unsigned char>(value),
                                           bytes, stream);
  });
}

namespace {

/// Fills a box; `fill` fills one rectangle: (address, pitch, width, height).
template <class Fill>
CUresult fill_box(const cudaPitchedPtr& memory, const cudaExtent& extent, Fill&& fill) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) return CUDA_SUCCESS;
  const CUdeviceptr base = address(memory.ptr);
  // Slices without a gap between them are one rectangle.
  if (memory.ysize == extent.height || extent.depth == 1)
    return fill(base, memory.pitch, extent.width, extent.height * extent.depth);
  for (std::size_t z = 0; z < extent.depth; ++z) {
    CUresult result =
        fill(base + z * memory.ysize * memory.pitch, memory.pitch, extent.width, extent.height);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

SLUICE_CUDART_API cudaError_t cudaMemset3D(cudaPitchedPtr memory, int value, cudaExtent extent) {
  return with_context([&](const DriverTable& cu) {
    return fill_box(memory, extent,
                    [&](CUdeviceptr at, std::size_t pitch, std::size_t width, std::size_t height) {
                      return cu.cuMemsetD2D8_v2(at, pitch, static_cast<unsigned char>(value), width,
                                                height);
                    });
  });
}

SLUICE_CUDART_API cudaError_t cudaMemset3DAsync(cudaPitchedPtr memory, int value, cudaExtent extent,
                                                cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    return fill_box(memory, extent,
                    [&](CUdeviceptr at, std::size_t pitch, std::size_t width, std::size_t height) {
                      return cu.cuMemsetD2D8Async(at, pitch, static_cast<unsigned char>(value),
                                                  width, height, stream);
                    });
  });
}

SLUICE_CUDART_API cudaError_t cudaMemset2D(void* memory, std::size_t pitch, int value,
                                           std::size_t width, std::size_t height) {
  return with_context([&](const DriverTable& cu) {
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    return cu.cuMemsetD2D8_v2(address(memory), pitch, static_cast<unsigned char>(value), width,
                              height);
  });
}

SLUICE_CUDART_API cudaError_t cudaMemset2DAsync(void* memory, std::size_t pitch, int value,
                                                std::size_t width, std::size_t height,
                                                cudaStream_t stream) {
  return with_context([&](const DriverTable& cu) {
    if (width == 0 || height == 0) return CUDA_SUCCESS;
    return cu.cuMemsetD2D8Async(address(memory), pitch, static_cast<unsigned char>(value), width,
                                height, stream);
  });
}
