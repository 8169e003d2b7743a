// Strings for callers' buffers.
#pragma once

#include "shim/nvml/api.h"

#include <cstring>
#include <string_view>

namespace sluice::nvml {

/// With the final zero; a buffer that is too short stays as it is.
inline Return copy_text(std::string_view text, char* out, unsigned bytes) {
  if (out == nullptr) return kInvalidArgument;
  if (text.size() >= bytes) return kInsufficientSize;
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return kSuccess;
}

}  // namespace sluice::nvml
