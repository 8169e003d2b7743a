// What went wrong, in words for an operator, with a code that programs can test.
#pragma once

#include <string>
#include <utility>

namespace sluice {

enum class ErrorCode {
  kInvalidArgument,  ///< the caller, a file or a user gave something unusable
  kNotFound,         ///< a file, tenant, device or symbol does not exist
  kPermission,       ///< authentication or access was refused
  kExhausted,        ///< a limit, quota or resource is used up
  kTimeout,          ///< a deadline passed
  kPeerClosed,       ///< the other side ended the connection in an orderly way or died
  kProtocol,         ///< the peer sent something the protocol does not allow
  kVersion,          ///< the two sides do not understand each other's version
  kUnsupported,      ///< known, but not available in this build or on this machine
  kSystem,           ///< a system call failed
  kInternal,         ///< a bug of ours
};

/// Name of the code as it appears in logs, e.g. "not_found".
const char* error_code_name(ErrorCode code) noexcept;

/// An error travels upwards as a value; each level may say what it was doing.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;

  /// "doing: message", with the same code.
  [[nodiscard]] Error with_context(const std::string& doing) const {
    return Error{code, doing + ": " + message};
  }
};

/// kSystem error for `errno_value`: "doing: No such file or directory".
Error system_error(const std::string& doing, int errno_value);

}  // namespace sluice
