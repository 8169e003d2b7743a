// Where a worker asks for memory before it allocates. The broker's ledger decides; without an
// answer there is no allocation.
#pragma once

#include <cstdint>

namespace sluice::server {

/// Confined to the decode thread, except that refund() may also come from the completer.
class LedgerLink {
 public:
  struct Usage {
    bool is_granted = false;
    std::uint64_t used_bytes = 0;  ///< by the tenant on the device
    std::uint64_t limit_bytes = 0;
  };
  virtual ~LedgerLink() = default;
  /// Not granted if the limit would be passed or the broker does not answer.
  virtual Usage charge(std::uint32_t device, std::uint64_t bytes) = 0;
  virtual void refund(std::uint32_t device, std::uint64_t bytes) = 0;
  virtual Usage query(std::uint32_t device) = 0;
};

}  // namespace sluice::server
