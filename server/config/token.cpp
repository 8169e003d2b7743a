#include "server/config/token.h"

#include "common/format.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace sluice::config {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

TokenHash hash_token(std::string_view token) {
  TokenHash hash{};
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  return hash;
}

bool is_same_hash(const TokenHash& a, const TokenHash& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string hash_text(const TokenHash& hash) {
  std::string out;
  for (const std::uint8_t byte : hash) out += format("{:02x}", byte);
  return out;
}

Result<TokenHash> parse_hash(std::string_view hex) {
  TokenHash hash{};
  if (hex.size() != 2 * hash.size())
    return fail(
        ErrorCode::kInvalidArgument,
        format("a SHA-256 has 64 hexadecimal digits, this has {} characters; `sluicectl token "
               "hash FILE` prints it",
               hex.size()));
  for (std::size_t i = 0; i < hash.size(); ++i) {
    const int high = hex_digit(hex[2 * i]);
    const int low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0)
      return fail(ErrorCode::kInvalidArgument,
                  format("\"{}\" is not hexadecimal; `sluicectl token hash FILE` prints the "
                         "right text",
                         hex.substr(2 * i, 2)));
    hash[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return hash;
}

Result<std::string> read_token_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) return fail(system_error(format("reading token file {}", path.string()), errno));
  std::string text(kTokenBytesMax + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad())
    return fail(system_error(format("reading token file {}", path.string()), errno ? errno : EIO));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kTokenBytesMax)
    return fail(ErrorCode::kInvalidArgument,
                format("token file {} is longer than {} bytes; is it the right file?",
                       path.string(), kTokenBytesMax));
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t start = text.find_first_not_of(kSpace);
  if (start == std::string::npos)
    return fail(
        ErrorCode::kInvalidArgument,
        format("token file {} is empty; `sluicectl token new` makes a token", path.string()));
  text = text.substr(start, text.find('\n', start) - start);
  text.erase(text.find_last_not_of(kSpace) + 1);
  return text;
}

Status fill_random(std::span<std::uint8_t> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(system_error("asking for random bytes", errno));
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<std::string> new_token() {
  TokenHash bits{};
  SLUICE_CHECK(fill_random(bits));
  return hash_text(bits);
}

}  // namespace sluice::config
