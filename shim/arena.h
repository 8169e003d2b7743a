// The device memory that one context has from its worker, and what of it is in use. The worker
// gives and takes back whole blocks, each charged to the slice as long as it is here; the program's
// allocations are blocks of exactly their size (in granules), or parts of slabs. What the program
// frees is kept for its next allocation, so that neither costs a round trip, within a bound. Memory
// that earlier commands may still use is not given out again before they have completed, but for
// what is freed and allocated in the order of one and the same stream.
//
// Bookkeeping only: shim/device_memory asks the worker.
#pragma once

#include "shim/slabs.h"

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace sluice::shim {

/// Not thread-safe.
class Arena {
 public:
  /// `kept_bytes_max`: of freed memory.
  explicit Arena(std::size_t kept_bytes_max) : kept_bytes_max_(kept_bytes_max) {}

  /// Smaller allocations share a slab.
  static constexpr std::size_t kSmallBytesMax = std::size_t{1} << 20;
  /// Of the block that an allocation needs.
  static std::size_t block_bytes(std::size_t bytes);

  /// A stream in whose order memory is freed and allocated; none: for any use, at once.
  using Order = std::optional<std::uint64_t>;
  /// An allocation from memory that is here, or none.
  std::optional<CUdeviceptr> take(std::size_t bytes, Order order = {});
  /// An allocation from a block that has just come, block_bytes() long.
  CUdeviceptr take_from(CUdeviceptr block, std::size_t bytes);
  /// An allocation that is a block by itself and goes back when it is freed.
  void take_whole(CUdeviceptr block, std::size_t bytes);

  /// Frees an allocation that commands up to number `busy_until` may use; 0: none does. False: it
  /// is not kept, and must be given back to the worker (which waits for those commands itself).
  /// Numbers never fall.
  [[nodiscard]] bool free(CUdeviceptr address, std::uint64_t busy_until, Order order = {});
  /// All commands up to that number have completed.
  void complete(std::uint64_t seq);
  /// The number up to which commands must have completed for everything freed to be free; 0: it is.
  [[nodiscard]] std::uint64_t busy_until() const;

  /// Takes out all blocks that are free: the worker gets them back.
  std::vector<CUdeviceptr> take_out_free();
  /// More is spare than is to be kept.
  [[nodiscard]] bool is_too_much() const { return spare_bytes() > kept_bytes_max_; }
  /// The memory is gone with its context.
  void clear();

  /// Memory that the slice is charged for and no allocation of the program is in: in whole blocks,
  /// also where earlier commands still use it.
  [[nodiscard]] std::size_t spare_bytes() const { return held_bytes_ - used_bytes_; }
  /// Whether an allocation of that size would be possible if earlier commands had completed. (A
  /// small one needs too little to wait for it.)
  [[nodiscard]] bool is_waited_for(std::size_t bytes) const;
  [[nodiscard]] bool is_any_waiting() const { return !waiting_.empty(); }

 private:
  enum class Form { kPart, kBlock, kWhole };
  struct Allocation {
    std::size_t bytes = 0;  ///< of the part or the block
    Form form = Form::kBlock;
  };
  struct Waiting {
    std::uint64_t busy_until = 0;
    CUdeviceptr address = 0;
    Allocation was;
    Order order;
  };
  using Waitings = std::list<Waiting>;
  using OrderKey = std::tuple<std::uint64_t, Form, std::size_t>;  ///< stream, form, bytes
  static Allocation shape_of(std::size_t bytes);
  std::optional<CUdeviceptr> take_in_order(const Allocation& wanted, std::uint64_t stream);
  void forget_order(Waitings::iterator waiting);
  void use(CUdeviceptr address, const Allocation& allocation);
  void release(CUdeviceptr address, const Allocation& was);
  [[nodiscard]] CUdeviceptr slab_of(CUdeviceptr address) const;
  std::optional<CUdeviceptr> take_block(std::size_t bytes);

  std::size_t kept_bytes_max_;
  Slabs slabs_;
  std::map<CUdeviceptr, std::size_t> parts_in_use_;  ///< per slab
  std::unordered_map<CUdeviceptr, Allocation> allocations_;
  std::multimap<std::size_t, CUdeviceptr> free_blocks_;  ///< by size
  Waitings waiting_;
  std::multimap<OrderKey, Waitings::iterator> in_order_;  ///< those that have an order
  std::size_t held_bytes_ = 0, used_bytes_ = 0, waiting_bytes_ = 0;
};

}  // namespace sluice::shim
