#include "server/worker/shared_staging.h"

#include "common/log.h"

namespace sluice::server {

std::byte* SharedStaging::piece(std::uint64_t offset, std::uint64_t bytes) const {
  if (bytes > memory_.size() || offset > memory_.size() - bytes) return nullptr;
  return memory_.data() + offset;
}

bool SharedStaging::is_registered(CUcontext context) {
  const std::lock_guard lock(mutex_);
  if (registrar_ != nullptr) return true;
  if (is_refused_ || context == nullptr || driver_.cuMemHostRegister_v2 == nullptr) return false;
  const CUresult result =
      driver_.cuMemHostRegister_v2(memory_.data(), memory_.size(), CU_MEMHOSTREGISTER_PORTABLE);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {
    registrar_ = context;
    return true;
  }
  is_refused_ = true;
  SLUICE_LOG_WARN("driver",
                  "the driver does not register shared memory (result={}): copies take a detour",
                  static_cast<int>(result));
  return false;
}

void SharedStaging::forget(CUcontext context) {
  const std::lock_guard lock(mutex_);
  if (registrar_ == context) registrar_ = nullptr;
}

}  // namespace sluice::server
