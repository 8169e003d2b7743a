// Device memory of one software GPU: a reservation of address space in which every allocation of a
// page or more has pages of its own and an unmapped page behind it, so that a kernel that runs over
// the end faults. Smaller ones share slabs: a process may have only so many mappings.
#pragma once

#include "common/result.h"
#include "softgpu/memory/account.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace sluice::softgpu {

inline constexpr std::size_t kArenaGranularityBytes = 512;

class Arena {
 public:
  struct Block {
    std::uint64_t address = 0;
    std::size_t bytes = 0;  ///< as asked for
    void* owner = nullptr;  ///< the context
    bool is_managed = false;
  };

  /// Reserves address space where ordinary processes have nothing (0x2000'0000'0000 + 1 TiB per
  /// device), or anywhere. Memory is charged in steps of `granularity_bytes`; blocks smaller than
  /// half a step share steps.
  static Result<std::unique_ptr<Arena>> create(
      int ordinal, std::unique_ptr<Account> account,
      std::size_t granularity_bytes = kArenaGranularityBytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// nullopt = the device is full. Memory is zero only by chance. Thread-safe, as everything here.
  std::optional<std::uint64_t> allocate(std::size_t bytes, void* owner, bool is_managed = false);
  /// False if no block starts there.
  bool free(std::uint64_t address);
  void free_all(void* owner);
  /// The block that contains the address.
  std::optional<Block> find(std::uint64_t address);
  [[nodiscard]] bool contains(std::uint64_t address) const { return address - base_ < bytes_; }
  [[nodiscard]] Account& account() { return *account_; }

 private:
  Arena(std::uint64_t base, std::size_t bytes, std::unique_ptr<Account> account,
        std::size_t granularity_bytes);
  bool charge(std::size_t bytes);
  void refund(std::size_t bytes);
  void release(std::map<std::uint64_t, Block>::iterator block);
  std::optional<std::uint64_t> take_slot(std::size_t bytes);
  std::optional<std::uint64_t> take_pages(std::size_t bytes);
  void give_pages(std::uint64_t at, std::size_t bytes);

  std::uint64_t base_;
  std::size_t bytes_;
  std::unique_ptr<Account> account_;
  std::size_t granularity_bytes_;
  std::size_t shared_bytes_ = 0;  ///< of blocks that share steps
  std::mutex mutex_;
  std::map<std::uint64_t, Block> blocks_;
  std::map<std::uint64_t, std::size_t> gaps_;  ///< free address ranges
  /// Free places for small blocks, by size. Their slabs stay: at most what small blocks needed at
  /// once.
  std::map<std::size_t, std::vector<std::uint64_t>> free_slots_;
};

}  // namespace sluice::softgpu
