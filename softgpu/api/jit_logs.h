// The log buffers that the options of a load or link name; all may be absent.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace sluice::softgpu {

struct JitLogs {
  char* error = nullptr;
  std::size_t error_bytes = 0;
  char* info = nullptr;
  std::size_t info_bytes = 0;

  JitLogs() = default;
  JitLogs(unsigned count, const CUjit_option* options, void** values) {
    for (unsigned i = 0; i < count; ++i) {
      const auto size = static_cast<std::size_t>(
          static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(values[i])));
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER) error = static_cast<char*>(values[i]);
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) error_bytes = size;
      if (options[i] == CU_JIT_INFO_LOG_BUFFER) info = static_cast<char*>(values[i]);
      if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) info_bytes = size;
    }
    if (info != nullptr && info_bytes > 0) info[0] = '\0';
  }
  void fail(const std::string& text) const {
    if (error == nullptr || error_bytes == 0) return;
    const std::size_t n = std::min(error_bytes - 1, text.size());
    std::memcpy(error, text.data(), n);
    error[n] = '\0';
  }
};

}  // namespace sluice::softgpu
