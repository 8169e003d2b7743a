// Device memory is the worker's (shim/device_memory), pinned host memory is the application's own:
// the address map knows both.
#include "protocol/memory.h"

#include "shim/api.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

using namespace sluice;
using namespace sluice::shim;

namespace {

CUresult allocate(CUdeviceptr* out, std::size_t bytes) {
  Context* context = current_context();
  if (const CUresult failed = session().memory().allocate(*context, bytes, out)) return failed;
  session().addresses().add_device(
      {.base = *out, .bytes = bytes, .context = context, .buffer_id = 0});
  return CUDA_SUCCESS;
}

std::size_t in_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

CUresult allocate_pinned(void** out, std::size_t bytes, unsigned flags) {
  constexpr unsigned kFlags =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (out == nullptr || bytes == 0 || (flags & ~kFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > SIZE_MAX / 2) return CUDA_ERROR_OUT_OF_MEMORY;
  void* memory = map_shared_address(bytes);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if ((flags & CU_MEMHOSTALLOC_DEVICEMAP) != 0) {
    if (const CUresult failed = session().shadows().create(memory, bytes, true)) {
      ::munmap(memory, in_pages(bytes));
      return failed;
    }
  }
  session().addresses().add_host({.base = reinterpret_cast<std::uintptr_t>(memory),
                                  .bytes = bytes,
                                  .flags = flags,
                                  .buffer_id = 0});
  *out = memory;
  return CUDA_SUCCESS;
}

/// Waits as cuMemFree does: the program may use the address for something else afterwards.
CUresult free_managed(const DeviceRange& range) {
  if (const CUresult failed = cuCtxSynchronize()) return failed;
  auto* memory = reinterpret_cast<void*>(range.base);
  session().addresses().remove_device(range.base);
  session().shadows().remove(memory);
  if (!session().pipeline().is_lost()) ::munmap(memory, in_pages(range.bytes));
  return CUDA_SUCCESS;
}

}  // namespace

SLUICE_API cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  if (const CUresult refused = enter(wire::Fn::cuMemAllocManaged)) return refused;
  if (dptr == nullptr || bytesize == 0 ||
      (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  void* memory = map_shared_address(bytesize);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (const CUresult failed = session().shadows().create(memory, bytesize, true)) {
    ::munmap(memory, in_pages(bytesize));
    return failed;
  }
  *dptr = reinterpret_cast<CUdeviceptr>(memory);
  session().addresses().add_device(
      {.base = *dptr, .bytes = bytesize, .context = current_context(), .is_managed = true});
  return CUDA_SUCCESS;
}

SLUICE_API cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t, unsigned int flags) {
  if (const CUresult refused = enter(wire::Fn::cuStreamAttachMemAsync)) return refused;
  Stream* stream = nullptr;
  if (const CUresult bad = find_stream(hStream, &stream)) return bad;
  const auto known = session().addresses().device(dptr);
  if (!known || !known->is_managed || flags > CU_MEM_ATTACH_SINGLE) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

SLUICE_API cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  if (const CUresult refused = enter(wire::Fn::cuMemAlloc_v2)) return refused;
  if (dptr == nullptr || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
  return allocate(dptr, bytesize);
}

SLUICE_API cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                              unsigned int ElementSizeBytes) {
  if (const CUresult refused = enter(wire::Fn::cuMemAllocPitch_v2)) return refused;
  if (dptr == nullptr || pPitch == nullptr || WidthInBytes == 0 || Height == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)
    return CUDA_ERROR_INVALID_VALUE;
  constexpr std::size_t kPitchAlign = 512;
  constexpr std::size_t kExtentMax = std::size_t{1} << 40;
  if (WidthInBytes > kExtentMax || Height > kExtentMax) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t pitch = (WidthInBytes + kPitchAlign - 1) / kPitchAlign * kPitchAlign;
  if (Height > (std::size_t{1} << 47) / pitch) return CUDA_ERROR_OUT_OF_MEMORY;
  if (const CUresult failed = allocate(dptr, pitch * Height)) return failed;
  *pPitch = pitch;
  return CUDA_SUCCESS;
}

SLUICE_API cuMemFree_v2(CUdeviceptr dptr) {
  if (const CUresult refused = enter(wire::Fn::cuMemFree_v2)) return refused;
  if (dptr == 0) return CUDA_SUCCESS;
  const auto known = session().addresses().device(dptr);
  if (!known || known->base != dptr || known->is_variable) return CUDA_ERROR_INVALID_VALUE;
  if (known->is_managed) return free_managed(*known);
  // Taken out before it is freed: another thread may be given the same address from then on.
  if (!session().addresses().remove_device(dptr)) return CUDA_ERROR_INVALID_VALUE;
  if (known->of_pool != nullptr) known->of_pool->give(known->bytes);
  return session().memory().free(*known->context, dptr);
}

SLUICE_API cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (const CUresult refused = enter(wire::Fn::cuMemGetInfo_v2)) return refused;
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  constexpr int kAttempts = 4;
  const std::uint32_t device = session().devices().ordinal(current_context()->device);
  const wire::cuMemGetInfo_v2 args{};
  wire::cuMemGetInfo_v2::Reply reply{};
  std::size_t spare = 0;
  // What goes back while we ask is counted neither here nor there, or twice.
  for (int i = 0; i < kAttempts; ++i) {
    spare = session().memory().spare_bytes_of(device);
    if (const CUresult failed = call(args, reply)) return failed;
    if (session().memory().spare_bytes_of(device) == spare) break;
  }
  // What is kept for the next allocation is free to the program.
  *free = std::min<std::size_t>(reply.free + spare, reply.total);
  *total = reply.total;
  return CUDA_SUCCESS;
}

SLUICE_API cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  if (const CUresult refused =
          enter_needing(wire::Fn::cuMemGetAddressRange_v2, wire::Needs::kContext))
    return refused;
  const auto known = session().addresses().device(dptr);
  if (!known) return CUDA_ERROR_NOT_FOUND;
  if (pbase != nullptr) *pbase = known->base;
  if (psize != nullptr) *psize = known->bytes;
  return CUDA_SUCCESS;
}

SLUICE_API cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemHostAlloc, wire::Needs::kContext))
    return refused;
  return allocate_pinned(pp, bytesize, Flags);
}

SLUICE_API cuMemAllocHost_v2(void** pp, size_t bytesize) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemAllocHost_v2, wire::Needs::kContext))
    return refused;
  return allocate_pinned(pp, bytesize, 0);
}

SLUICE_API cuMemFreeHost(void* p) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemFreeHost, wire::Needs::kInit))
    return refused;
  const auto known = session().addresses().host(p);
  if (!known || known->is_registered || known->base != reinterpret_cast<std::uintptr_t>(p))
    return CUDA_ERROR_INVALID_VALUE;
  session().transfers().settle(p, known->bytes);
  if (!session().addresses().remove_host(p, false)) return CUDA_ERROR_INVALID_VALUE;
  session().shadows().remove(p);
  // After a lost session a reader may just be copying the last data: the pages then stay.
  if (!session().pipeline().is_lost()) ::munmap(p, in_pages(known->bytes));
  return CUDA_SUCCESS;
}

SLUICE_API cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemHostRegister_v2, wire::Needs::kContext))
    return refused;
  constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                              CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if (p == nullptr || bytesize == 0 || (Flags & ~kFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((Flags & (CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  const HostRange range{.base = reinterpret_cast<std::uintptr_t>(p),
                        .bytes = bytesize,
                        .flags = Flags,
                        .is_registered = true,
                        .buffer_id = 0};
  return session().addresses().add_host(range) ? CUDA_SUCCESS
                                               : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

SLUICE_API cuMemHostUnregister(void* p) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemHostUnregister, wire::Needs::kInit))
    return refused;
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto known = session().addresses().host(p);
  if (!known || !known->is_registered || known->base != reinterpret_cast<std::uintptr_t>(p))
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  session().transfers().settle(p, known->bytes);
  session().shadows().remove(p);
  return session().addresses().remove_host(p, true) ? CUDA_SUCCESS
                                                    : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

SLUICE_API cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  if (const CUresult refused = enter_needing(wire::Fn::cuMemHostGetFlags, wire::Needs::kContext))
    return refused;
  const auto known = session().addresses().host(p);
  if (pFlags == nullptr || !known || known->is_registered) return CUDA_ERROR_INVALID_VALUE;
  *pFlags = known->flags;
  return CUDA_SUCCESS;
}

SLUICE_API cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  if (const CUresult refused =
          enter_needing(wire::Fn::cuMemHostGetDevicePointer_v2, wire::Needs::kContext))
    return refused;
  if (pdptr == nullptr || Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto known = session().addresses().host(p);
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult failed = session().shadows().create(reinterpret_cast<void*>(known->base),
                                                         known->bytes, !known->is_registered))
    return failed;
  *pdptr = session().shadows().device_address(p);
  return CUDA_SUCCESS;
}
