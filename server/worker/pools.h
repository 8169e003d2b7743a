// Charges of the driver's memory pools. What a pool holds is the tenant's, whether it is in use or
// cached: the ledger is asked for what an allocation needs beyond what the pool has cached, and
// gets back what is trimmed. The driver's own release threshold stays at 0; the application's is
// kept here and acted upon when frees have completed.
#pragma once

#include "driver/driver_table.h"
#include "server/worker/ledger_link.h"

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>

namespace sluice::server {

/// Thread-safe.
class PoolCharges {
 public:
  PoolCharges(const DriverTable& driver, LedgerLink& ledger) : driver_(driver), ledger_(ledger) {}

  void add(CUmemoryPool pool, std::uint32_t device);
  /// Gives everything cached back; the rest is refunded as it is freed.
  void remove(CUmemoryPool pool);
  /// False if the ledger refuses, also after all pools of the device were trimmed.
  bool charge(CUmemoryPool pool, std::uint64_t bytes);
  /// Memory of the pool was freed in stream order, and that has completed.
  void freed(CUmemoryPool pool, std::uint32_t device, std::uint64_t bytes);
  /// An allocation that was charged did not come about.
  void undo(CUmemoryPool pool, std::uint64_t bytes);
  CUresult trim(CUmemoryPool pool, std::uint64_t keep_bytes);
  /// Trims all pools of the device; true if anything was refunded.
  bool release(std::uint32_t device);

  void set_threshold(CUmemoryPool pool, std::uint64_t bytes);
  [[nodiscard]] std::uint64_t threshold(CUmemoryPool pool);

 private:
  struct Pool {
    std::uint32_t device = 0;
    std::uint64_t cached_bytes = 0, threshold_bytes = 0;
  };
  /// mutex_ is held.
  std::uint64_t shrink(CUmemoryPool handle, Pool& pool, std::uint64_t cached_bytes);
  bool release_locked(std::uint32_t device);

  const DriverTable& driver_;
  LedgerLink& ledger_;
  std::mutex mutex_;
  std::map<CUmemoryPool, Pool> pools_;
};

}  // namespace sluice::server
