// Staging memory that UCX has registered with the network adapter, once, for the life of a
// connection. Nothing else of the process ever is.
#pragma once

#include "transport/ucx/plugin/context.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace sluice::transport::ucx {

class RegisteredMemory {
 public:
  /// The error names the limit that is usually the reason.
  static Result<std::unique_ptr<RegisteredMemory>> make(ucp_context_h context, std::size_t bytes);
  ~RegisteredMemory();
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  [[nodiscard]] ucp_mem_h handle() const { return handle_; }
  /// What a peer needs to reach it.
  [[nodiscard]] Result<std::string> key() const;

 private:
  RegisteredMemory(ucp_context_h context, std::span<std::byte> bytes)
      : context_(context), bytes_(bytes) {}

  ucp_context_h context_;
  std::span<std::byte> bytes_;
  ucp_mem_h handle_ = nullptr;
};

}  // namespace sluice::transport::ucx
