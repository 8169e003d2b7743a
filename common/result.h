// Result<T>: a value or an Error. The one place that names the library behind it.
#pragma once

#include "common/error.h"

#include <tl/expected.hpp>

namespace sluice {

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

/// For `return fail(ErrorCode::kNotFound, "no tenant named ...")`.
inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}
inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace sluice

#define SLUICE_CONCAT_(a, b) a##b
#define SLUICE_CONCAT(a, b) SLUICE_CONCAT_(a, b)
#define SLUICE_TRY_(name, tmp, ...)                                \
  auto tmp = (__VA_ARGS__);                                        \
  if (!tmp) return ::tl::unexpected<::sluice::Error>(tmp.error()); \
  name = std::move(*tmp)
/// SLUICE_TRY(auto fd, open_socket(...)): binds the value or returns the error.
#define SLUICE_TRY(name, ...) SLUICE_TRY_(name, SLUICE_CONCAT(try_, __LINE__), __VA_ARGS__)
/// SLUICE_CHECK(status_expression): returns the error of a Status.
#define SLUICE_CHECK(...)                                       \
  do {                                                          \
    if (const auto& check_ = (__VA_ARGS__); !check_)            \
      return ::tl::unexpected<::sluice::Error>(check_.error()); \
  } while (0)
