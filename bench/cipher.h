// The yardstick of an encrypted channel: what the cipher alone costs one core.
#pragma once

#include <cstddef>
#include <span>

namespace sluice::bench {

/// Seconds to encrypt `from` with AES-256-GCM in records of 16 KiB into a small hot buffer.
double raw_cipher_s(std::span<const std::byte> from);

}  // namespace sluice::bench
