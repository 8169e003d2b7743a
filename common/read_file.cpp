#include "common/read_file.h"

#include "common/fd.h"
#include "common/format.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace sluice {
namespace {

Error read_error(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR)
    return {ErrorCode::kNotFound, format("there is no file {}", path)};
  if (error == EISDIR)
    return {ErrorCode::kInvalidArgument, format("{} is a folder; name a file", path)};
  if (error == EACCES || error == EPERM)
    return {ErrorCode::kPermission,
            format("{} cannot be read: {}; user {}, as whom this runs, must be allowed to", path,
                   std::strerror(error), ::geteuid())};
  return system_error(path + " cannot be read", error);
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.valid()) return fail(read_error(path, errno));
  std::string text;
  char piece[4096];
  for (;;) {
    const ssize_t got = ::read(file.get(), piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(read_error(path, errno));
    if (got == 0) return text;
    text.append(piece, static_cast<std::size_t>(got));
    if (text.size() > bytes_max)
      return fail(ErrorCode::kInvalidArgument,
                  format("{} is longer than {} bytes; is it the right file?", path, bytes_max));
  }
}

Result<std::string> read_token_file(const std::string& path) {
  auto read = read_file(path, kTokenBytesMax);
  if (!read) return fail(read.error().with_context("the token file"));
  constexpr std::string_view kSpace = " \t\r\n";
  std::string& text = *read;
  const std::size_t start = text.find_first_not_of(kSpace);
  if (start == std::string::npos)
    return fail(ErrorCode::kInvalidArgument,
                format("the token file {} is empty; `sluicectl token new` makes a token", path));
  text = text.substr(start, text.find('\n', start) - start);
  text.erase(text.find_last_not_of(kSpace) + 1);
  return std::move(text);
}

}  // namespace sluice
