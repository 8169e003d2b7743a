// Small files whole: configurations and tokens. Errors are for the person who named the file: what
// is wrong with it, and what to do.
#pragma once

#include "common/result.h"

#include <cstddef>
#include <string>

namespace sluice {

inline constexpr std::size_t kTokenBytesMax = 4096;

/// Err(kNotFound), Err(kPermission), Err(kInvalidArgument) for a folder or more than `bytes_max`,
/// Err(kSystem); each names the path.
Result<std::string> read_file(const std::string& path, std::size_t bytes_max);

/// A tenant's token: the first line of the file that is not empty, without white space at its ends.
/// Err as read_file(), and kInvalidArgument if there is none or it is over kTokenBytesMax.
Result<std::string> read_token_file(const std::string& path);

}  // namespace sluice
