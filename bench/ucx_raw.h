// The yardstick of channels over UCX: UCX itself, both ends spinning, nothing of ours in between.
// It is an object of its own because it links to UCX, and is opened after UCX was loaded as a
// guest.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace sluice::bench {

class RawUcx {
 public:
  static constexpr std::size_t kPieceBytes = 256 * 1024;

  virtual ~RawUcx() = default;
  /// `bytes` there and back by active message; the duration of each round goes into `round_us`.
  virtual void ping_pong(std::size_t bytes, std::span<double> round_us) = 0;
  /// Seconds for `count` pieces from registered memory into the peer's, or the other way.
  virtual double put_s(std::size_t count) = 0;
  virtual double get_s(std::size_t count) = 0;
};

/// Null and a message: it cannot be.
using RawUcxEntry = RawUcx* (*)(const char* host, bool is_tcp, std::string* error);
inline constexpr const char* kRawUcxEntry = "sluice_raw_ucx";
inline constexpr const char* kRawUcxLibrary = "libsluice_raw_ucx.so";

}  // namespace sluice::bench
