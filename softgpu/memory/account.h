// How much of a software GPU's memory each process uses: one file in shared memory per user and
// device, so that processes share a device as they would share a GPU. What a dead process held is
// found and given back.
#pragma once

#include "common/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace sluice::softgpu {

class Account {
 public:
  virtual ~Account() = default;
  /// Adds `bytes` to this process's use if everybody's use stays within the capacity. Thread-safe.
  virtual bool charge(std::size_t bytes) = 0;
  virtual void refund(std::size_t bytes) = 0;
  [[nodiscard]] virtual std::size_t used_bytes() = 0;  ///< by everybody
  /// By one process of this host; 0 also if there is none.
  [[nodiscard]] virtual std::size_t used_bytes_of(int pid) = 0;
  [[nodiscard]] virtual std::size_t capacity_bytes() const = 0;
};

/// What tells this process's account of device `ordinal` from others of the host: user, name,
/// ordinal.
std::string account_id(int ordinal);
/// Opens or creates the account of device `ordinal`; Err(kSystem) if /dev/shm is not usable.
Result<std::unique_ptr<Account>> open_account(int ordinal, std::size_t capacity_bytes);

}  // namespace sluice::softgpu
