// What the shim knows about addresses: device allocations and variables of the session, pinned and
// registered host memory. Copies check their bounds here, cuMemcpy finds its direction, pointer
// attributes are answered from it.
#pragma once

#include "shim/memory_pool.h"
#include "shim/objects.h"

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace sluice::shim {

struct DeviceRange {
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  Context* context = nullptr;
  bool is_variable = false;                  ///< of a module: not to be freed
  bool is_managed = false;                   ///< the program's memory at the same address
  std::uint64_t buffer_id = 0;               ///< CU_POINTER_ATTRIBUTE_BUFFER_ID
  CUmemoryPool pool = nullptr;               ///< CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
  std::shared_ptr<MemoryPool> of_pool = {};  ///< may outlive its handle
  bool is_mapped = false;  ///< by cuMemMap: without a context, and neighbours are one stretch
  CUdevice device = 0;     ///< of what is mapped
};

struct HostRange {
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  unsigned flags = 0;
  bool is_registered = false;  ///< the application's own memory
  std::uint64_t buffer_id = 0;
};

/// Thread-safe.
class Addresses {
 public:
  void add_device(const DeviceRange& range);
  /// The range that contains the address.
  [[nodiscard]] std::optional<DeviceRange> device(CUdeviceptr address) const;
  /// Takes out the allocation that begins exactly there; empty if there is none.
  std::optional<DeviceRange> remove_device(CUdeviceptr base);
  void remove_context(const Context& context);
  /// Addresses of cuMemAddressReserve: the device's, whatever is mapped there.
  void add_reserved(CUdeviceptr base, std::size_t bytes);
  void remove_reserved(CUdeviceptr base);
  [[nodiscard]] bool is_reserved(CUdeviceptr address) const;

  /// False if it overlaps memory that is known already.
  bool add_host(const HostRange& range);
  [[nodiscard]] std::optional<HostRange> host(const void* address) const;
  /// The allocation (not registered memory) that contains the address; quick where there is none.
  [[nodiscard]] std::optional<HostRange> allocated_host(std::uintptr_t address) const;
  /// Takes out the range that begins there and is (not) registered.
  std::optional<HostRange> remove_host(const void* base, bool is_registered);

  /// Whether [address, address + bytes) lies in one allocation; addresses of which nothing is known
  /// pass.
  /// (Mappings that touch count as one.)
  [[nodiscard]] bool is_within(CUdeviceptr address, std::size_t bytes) const;
  /// Whether the whole range is pinned memory.
  [[nodiscard]] bool is_pinned(const void* address, std::size_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::map<CUdeviceptr, DeviceRange> device_;
  struct Reserved {
    std::size_t bytes = 0;
  };
  std::map<CUdeviceptr, Reserved> reserved_;
  std::map<std::uintptr_t, HostRange> host_;
  std::atomic<std::uintptr_t> host_low_{UINTPTR_MAX}, host_high_{0};  ///< of all allocations so far
  std::uint64_t last_buffer_id_ = 0;
};

}  // namespace sluice::shim
