// Owner of memory that begins as zeros and costs nothing where nobody has written: for copies of
// ranges whose size somebody else has named.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <utility>

namespace sluice {

class ZeroMemory {
 public:
  ZeroMemory() = default;
  /// data() is null if there is no room.
  explicit ZeroMemory(std::size_t bytes) : bytes_(bytes) {
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) data_ = static_cast<std::byte*>(memory);
  }
  ZeroMemory(ZeroMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  ZeroMemory& operator=(ZeroMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ZeroMemory(const ZeroMemory&) = delete;
  ZeroMemory& operator=(const ZeroMemory&) = delete;
  ~ZeroMemory() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }

  [[nodiscard]] std::byte* data() { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace sluice
