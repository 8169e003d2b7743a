#include "server/config/token.h"

#include "common/format.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <cerrno>

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
