// Reserved address space of running blocks: shared memory that faults behind its end, and memory
// for coroutine frames.
#pragma once

#include <cstddef>

namespace sluice::softgpu {

/// A private anonymous mapping, released with the object.
class Reservation {
 public:
  explicit Reservation(std::size_t bytes, bool is_usable);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  /// Null if the address space is exhausted.
  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// The memory from `offset_bytes` on reads as zero again and costs nothing until it is written.
  void discard(std::size_t offset_bytes);

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The shared window of one block: its memory, then address space that faults.
class SharedWindow {
 public:
  SharedWindow();
  /// Makes `bytes` usable (whole pages) and nothing behind them; null if there is no address space.
  std::byte* resize(std::size_t bytes);

 private:
  Reservation memory_;
  std::size_t usable_ = 0;
};

}  // namespace sluice::softgpu
