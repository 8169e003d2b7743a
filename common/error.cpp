#include "common/error.h"

#include <system_error>

namespace sluice {

const char* error_code_name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kPermission:
      return "permission";
    case ErrorCode::kExhausted:
      return "exhausted";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kPeerClosed:
      return "peer_closed";
    case ErrorCode::kProtocol:
      return "protocol";
    case ErrorCode::kVersion:
      return "version";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kSystem:
      return "system";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Error system_error(const std::string& doing, int errno_value) {
  return Error{ErrorCode::kSystem, doing + ": " + std::generic_category().message(errno_value)};
}

}  // namespace sluice
