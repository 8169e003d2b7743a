// Start-up, versions, entry points, error names.
#include "proc_table.h"
#include "shim/api.h"

#include <cstring>

using namespace sluice;
using namespace sluice::shim;

SLUICE_API cuInit(unsigned int Flags) {
  thread_state().fn = wire::Fn::cuInit;
  if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return initialise();
}

SLUICE_API cuDriverGetVersion(int* driverVersion) {
  if (const CUresult refused = enter_needing(wire::Fn::cuDriverGetVersion, wire::Needs::kNothing))
    return refused;
  if (driverVersion == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *driverVersion =
      process().phase.load() == Phase::kReady ? session().driver_version() : CUDA_VERSION;
  return CUDA_SUCCESS;
}

SLUICE_API cuGetErrorName(CUresult error, const char** pStr) {
  if (pStr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pStr = error_name(error);
  return *pStr != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SLUICE_API cuGetErrorString(CUresult error, const char** pStr) {
  if (pStr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pStr = error_text(error);
  return *pStr != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SLUICE_API cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
  if (ppExportTable == nullptr || pExportTableId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Private interfaces of another vendor's driver are not ours to offer, whatever their name
  // (docs/licensing.md).
  *ppExportTable = nullptr;
  return CUDA_ERROR_NOT_SUPPORTED;
}

namespace {

CUresult find_entry(const char* symbol, void** pfn, int version, cuuint64_t flags,
                    ProcStatus* status) {
  constexpr cuuint64_t kFlags =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr || pfn == nullptr || (flags & ~kFlags) != 0 || flags == kFlags)
    return CUDA_ERROR_INVALID_VALUE;
  // "greater than the driver version": CUDA_ERROR_INVALID_VALUE (cuGetProcAddress, since 13.0).
  const int driver =
      process().phase.load() == Phase::kReady ? session().driver_version() : CUDA_VERSION;
  if (version > driver) return CUDA_ERROR_INVALID_VALUE;
  *pfn = find_proc(symbol, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0,
                   status);
  return CUDA_SUCCESS;
}

}  // namespace

#undef cuGetProcAddress
/// The form of CUDA 11.3, without a status.
SLUICE_API cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  ProcStatus status{};
  if (const CUresult bad = find_entry(symbol, pfn, cudaVersion, flags, &status)) return bad;
  return status == ProcStatus::kFound ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

SLUICE_API cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                               CUdriverProcAddressQueryResult* symbolStatus) {
  ProcStatus status{};
  if (const CUresult bad = find_entry(symbol, pfn, cudaVersion, flags, &status)) return bad;
  if (symbolStatus == nullptr)
    return status == ProcStatus::kFound ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  switch (status) {
    case ProcStatus::kFound:
      *symbolStatus = CU_GET_PROC_ADDRESS_SUCCESS;
      break;
    case ProcStatus::kNotFound:
      *symbolStatus = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
      break;
    case ProcStatus::kVersionNotSufficient:
      *symbolStatus = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
      break;
  }
  return CUDA_SUCCESS;
}
