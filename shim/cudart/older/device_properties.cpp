// cudaDeviceProp as CUDA 11 and 12 knew it: CUDA 13's fields, and what it dropped.
#include "shim/cudart/older/layouts.h"
#include "shim/cudart/runtime.h"

#include <cstring>

using namespace sluice::cudart;
using sluice::DriverTable;

SLUICE_CUDART_FORM(13, cudaGetDeviceProperties)(cudaDeviceProp* properties, int device);

namespace {

template <class To, class From>
void copy_field(To& to, const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  std::memcpy(&to, &from, sizeof to);
}
template <class Field>
void ignore_field(const Field&) {}

CUresult fill_dropped(const DriverTable& cu, CUdevice device, v12::DeviceProp* p) {
  struct Dropped {
    int* field;
    CUdevice_attribute attribute;
  };
  const Dropped fields[] = {
      {p->clockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
      {p->deviceOverlap, CU_DEVICE_ATTRIBUTE_GPU_OVERLAP},
      {p->kernelExecTimeoutEnabled, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT},
      {p->computeMode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE},
      {p->maxTexture1DLinear, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH},
      {p->memoryClockRate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
      {p->singleToDoublePrecisionPerfRatio,
       CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO},
      {p->cooperativeMultiDeviceLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH},
  };
  for (const Dropped& entry : fields)
    if (CUresult result = attribute_or_zero(cu, entry.field, entry.attribute, device);
        result != CUDA_SUCCESS)
      return result;
  return CUDA_SUCCESS;
}

cudaError_t fill(v12::DeviceProp* to, int device) {
  cudaDeviceProp from;
  if (cudaError_t error = sluice_v13_cudaGetDeviceProperties(&from, device); error != cudaSuccess)
    return error;
  std::memset(to, 0, sizeof *to);
#define SLUICE_COPY(type, name, count) copy_field(to->name, from.name);
#define SLUICE_IGNORE(type, name, count) ignore_field(to->name);
  SLUICE_DEVICE_PROP_11(SLUICE_COPY, SLUICE_IGNORE)
  SLUICE_DEVICE_PROP_12(SLUICE_COPY, SLUICE_IGNORE)
#undef SLUICE_COPY
#undef SLUICE_IGNORE
  return with_device(
      device, [&](const DriverTable& cu, CUdevice handle) { return fill_dropped(cu, handle, to); });
}

}  // namespace

// CUDA 12's own form; its headers turn cudaGetDeviceProperties into this name.
SLUICE_CUDART_API cudaError_t cudaGetDeviceProperties_v2(v12::DeviceProp* properties, int device) {
  if (properties == nullptr) return record(cudaErrorInvalidValue);
  return fill(properties, device);
}

// CUDA 11's struct is the beginning of CUDA 12's.
SLUICE_CUDART_FORM(11, cudaGetDeviceProperties)(v11::DeviceProp* properties, int device) {
  if (properties == nullptr) return record(cudaErrorInvalidValue);
  v12::DeviceProp whole;
  if (cudaError_t error = fill(&whole, device); error != cudaSuccess) return error;
  std::memcpy(static_cast<void*>(properties), &whole, sizeof *properties);
  return cudaSuccess;
}
