// Physical memory of a software GPU: a memfd block that can be mapped at several addresses and
// handed to another process as a file descriptor. Its bytes are charged to the device's account for
// as long as the process that created it holds it by a handle or a mapping.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "softgpu/memory/account.h"

#include <cstddef>
#include <memory>

namespace sluice::softgpu {

class PhysicalBlock {
 public:
  struct Properties {
    int ordinal = 0;  ///< of the device, before CUDA_VISIBLE_DEVICES
    std::size_t bytes = 0;
    bool is_exportable = false;
    bool is_rdma_capable = false;
  };

  /// kExhausted: the account is full. `account` must outlive the block.
  static Result<std::shared_ptr<PhysicalBlock>> create(const Properties& properties,
                                                       Account& account);
  /// From a descriptor that export_fd gave, here or in another process; it stays the caller's. A
  /// descriptor that is not a sealed block of this kind is kInvalidArgument: a peer could make it
  /// shrink.
  static Result<std::shared_ptr<PhysicalBlock>> import(int fd);
  ~PhysicalBlock();
  PhysicalBlock(const PhysicalBlock&) = delete;
  PhysicalBlock& operator=(const PhysicalBlock&) = delete;

  [[nodiscard]] const Properties& properties() const { return properties_; }
  [[nodiscard]] Result<Fd> export_fd() const;
  /// Puts its first bytes at the (page-aligned) address, over whatever is there; nothing may touch
  /// them yet.
  [[nodiscard]] bool map_at(std::uint64_t address, std::size_t bytes) const;

 private:
  PhysicalBlock(Properties properties, Fd fd, Account* account)
      : properties_(properties), fd_(std::move(fd)), account_(account) {}
  Properties properties_;
  Fd fd_;
  Account* account_;  ///< null if imported: the exporter is charged
};

}  // namespace sluice::softgpu
