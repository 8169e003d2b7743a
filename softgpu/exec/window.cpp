#include "softgpu/exec/window.h"

#include "softgpu/exec/context.h"

#include <sys/mman.h>

namespace sluice::softgpu {

Reservation::Reservation(std::size_t bytes, bool is_usable) : bytes_(bytes) {
  void* at = mmap(nullptr, bytes, is_usable ? PROT_READ | PROT_WRITE : PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at != MAP_FAILED) base_ = static_cast<std::byte*>(at);
}

Reservation::~Reservation() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

void Reservation::discard(std::size_t offset_bytes) {
  if (base_ != nullptr) madvise(base_ + offset_bytes, bytes_ - offset_bytes, MADV_DONTNEED);
}

SharedWindow::SharedWindow() : memory_(kSharedWindowBytes, false) {}

std::byte* SharedWindow::resize(std::size_t bytes) {
  std::byte* base = memory_.base();
  if (base == nullptr) return nullptr;
  const std::size_t wanted = (bytes + 4095) / 4096 * 4096;
  if (wanted > usable_) mprotect(base, wanted, PROT_READ | PROT_WRITE);
  if (wanted < usable_) mprotect(base + wanted, usable_ - wanted, PROT_NONE);
  usable_ = wanted;
  return base;
}

}  // namespace sluice::softgpu
