// Managed memory. Device memory of a software GPU is host memory: what a GPU's driver moves to and
// fro is simply there, and hints about where it should be have nothing to do.
#include "softgpu/api/ranges.h"

using namespace sluice::softgpu;

namespace {

bool is_managed(CUdeviceptr p, std::size_t bytes) {
  const auto range = memory_at(p);
  return range && range->is_managed && bytes <= range->bytes - (p - range->address);
}

CUresult check_hint(CUdeviceptr p, std::size_t bytes, const CUmemLocation& where) {
  SOFTGPU_CHECK(initialised());
  if (bytes == 0 || !is_managed(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (where.type == CU_MEM_LOCATION_TYPE_DEVICE && device_of(where.id) == nullptr)
    return CUDA_ERROR_INVALID_DEVICE;
  return CUDA_SUCCESS;
}

CUmemLocation location_of(CUdevice device) {
  return {device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
          device == CU_DEVICE_CPU ? 0 : device};
}

}  // namespace

SOFTGPU_API cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
  if (out == nullptr || bytes == 0 ||
      (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  SOFTGPU_CHECK(current(&context));
  SOFTGPU_CHECK(refuse_unsafe_call());
  const auto at = context->device->arena->allocate(bytes, context.get(), true);
  if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = *at;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuMemAdvise_v2(CUdeviceptr p, size_t bytes, CUmem_advise advice,
                           CUmemLocation location) {
  if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
    return CUDA_ERROR_INVALID_VALUE;
  return check_hint(p, bytes, location);
}
#undef cuMemAdvise
SOFTGPU_API cuMemAdvise(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUdevice device) {
  return cuMemAdvise_v2(p, bytes, advice, location_of(device));
}

SOFTGPU_API cuMemPrefetchAsync_v2(CUdeviceptr p, size_t bytes, CUmemLocation location,
                                  unsigned int flags, CUstream handle) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  return check_hint(p, bytes, location);
}
#undef cuMemPrefetchAsync
SOFTGPU_API cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, CUdevice device, CUstream stream) {
  return cuMemPrefetchAsync_v2(p, bytes, location_of(device), 0, stream);
}

SOFTGPU_API cuStreamAttachMemAsync(CUstream handle, CUdeviceptr p, size_t bytes,
                                   unsigned int flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
    return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  SOFTGPU_CHECK(stream_of(handle, &stream));
  // The length is 0 or the whole allocation's.
  const auto range = memory_at(p);
  return range && range->is_managed && range->address == p && (bytes == 0 || bytes == range->bytes)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}
