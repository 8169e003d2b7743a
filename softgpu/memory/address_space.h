// The address ranges that a process has reserved for virtual memory management, and the physical
// blocks mapped into them. Reserved, mapped and accessible are three steps: what is only reserved
// or mapped faults.
#pragma once

#include "softgpu/memory/physical.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace sluice::softgpu {

class AddressSpace {
 public:
  enum class Access { kNone, kRead, kReadWrite };
  struct Mapping {
    std::uint64_t address = 0;
    std::size_t bytes = 0;  ///< from the block's beginning
    std::shared_ptr<PhysicalBlock> block;
    Access access = Access::kNone;
  };

  /// At `hint` if it is not zero, aligned and free; else wherever there is room. nullopt: no
  /// address space. Thread-safe, as everything here; a false result has changed nothing.
  std::optional<std::uint64_t> reserve(std::size_t bytes, std::size_t alignment,
                                       std::uint64_t hint);
  /// Exactly one reservation, with nothing mapped in it.
  bool free(std::uint64_t address, std::size_t bytes);
  /// The block's first `bytes`, at a place inside one reservation where nothing is mapped.
  bool map(std::uint64_t address, std::size_t bytes, const std::shared_ptr<PhysicalBlock>& block);
  /// One or more whole mappings without a gap between them; what was there is a reservation again.
  bool unmap(std::uint64_t address, std::size_t bytes);
  bool set_access(std::uint64_t address, std::size_t bytes, Access access);
  std::optional<Mapping> find(std::uint64_t address);
  bool is_reserved(std::uint64_t address);
  /// Every byte is mapped and accessible (writable), over any number of mappings.
  bool is_accessible(std::uint64_t address, std::size_t bytes, bool for_writing);
  /// True if whole mappings cover the range exactly.
  bool are_whole_mappings(std::uint64_t address, std::size_t bytes);

 private:
  [[nodiscard]] bool are_whole(std::uint64_t address, std::size_t bytes) const;
  [[nodiscard]] const Mapping* at(std::uint64_t address) const;
  std::mutex mutex_;
  std::map<std::uint64_t, std::size_t> reservations_;
  std::map<std::uint64_t, Mapping> mappings_;
};

}  // namespace sluice::softgpu
