// Bodies of records that no shim built: any record of the specification, by its type alone.
#pragma once

#include "protocol/wire.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace sluice::wire {

/// A body whose variable parts are `bytes` long each. Their length fields come first among the
/// widest fields of some records and later in others, so they are found by trying: blob_bytes()
/// tells which 8-byte word is length i.
template <class Args>
void set_lengths(Args* args, std::uint64_t bytes) {
  for (std::size_t i = 0; i < Args::kBlobs; ++i) {
    for (std::size_t at = 0; at + 8 <= sizeof(Args); at += 8) {
      Args probe{};
      const std::uint64_t one = 1;
      std::memcpy(reinterpret_cast<std::byte*>(&probe) + at, &one, sizeof one);
      if (blob_bytes(probe, i) == 1)
        std::memcpy(reinterpret_cast<std::byte*>(args) + at, &bytes, sizeof bytes);
    }
  }
}

template <class Args>
std::vector<std::byte> body_of(const Args& args, std::size_t blob_bytes_each) {
  std::vector<std::byte> body(sizeof args + Args::kBlobs * padded(blob_bytes_each));
  std::memcpy(body.data(), &args, sizeof args);
  return body;
}

}  // namespace sluice::wire
