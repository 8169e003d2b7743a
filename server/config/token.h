// Tenants prove who they are by a token. A server keeps the SHA-256 of it; the token itself lives
// in the tenant's file.
#pragma once

#include "common/result.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice::config {

using TokenHash = std::array<std::uint8_t, 32>;

TokenHash hash_token(std::string_view token);
/// In constant time.
bool is_same_hash(const TokenHash& a, const TokenHash& b);

std::string hash_text(const TokenHash& hash);  ///< 64 hexadecimal digits
Result<TokenHash> parse_hash(std::string_view hex);

/// From the kernel's generator. Err(kSystem) if it does not answer.
Status fill_random(std::span<std::uint8_t> out);
/// 256 random bits as text.
Result<std::string> new_token();

}  // namespace sluice::config
