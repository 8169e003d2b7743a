#include "server/worker/outbox.h"

#include <array>
#include <cstring>

namespace sluice::server {
namespace {
constexpr std::size_t kBatchBytes = 8 * 1024;
constexpr std::size_t kCopyBytesMax = 32 * 1024;  // longer pieces go through without a reserve
}  // namespace

void Outbox::append(Bytes bytes) {
  if (bytes.empty()) return;
  const std::size_t whole = wire::padded(bytes.size());
  if (bytes.size() <= kCopyBytesMax) {
    const auto space = channel_.reserve(whole);
    if (space.empty()) return;
    std::memcpy(space.data(), bytes.data(), bytes.size());
    std::memset(space.data() + bytes.size(), 0, whole - bytes.size());
    channel_.commit(whole, transport::FlushHint::kNone);
    return;
  }
  static_cast<void>(channel_.write_through(bytes));
  constexpr std::array<std::byte, 8> kZeros{};
  if (whole != bytes.size())
    static_cast<void>(channel_.write_through(std::span(kZeros).first(whole - bytes.size())));
}

void Outbox::send(wire::RecordHeader header, Bytes fixed, std::initializer_list<Bytes> blobs) {
  std::size_t total = sizeof header + fixed.size();
  for (const Bytes& blob : blobs) total += wire::padded(blob.size());
  header.bytes = static_cast<std::uint32_t>(total);
  const std::lock_guard lock(mutex_);
  append({reinterpret_cast<const std::byte*>(&header), sizeof header});
  append(fixed);
  is_urgent_ |= header.opcode != static_cast<std::uint16_t>(wire::copy_credit::kOpcode);
  for (const Bytes& blob : blobs) append(blob);
  sent_bytes_.fetch_add(total, std::memory_order_relaxed);
}

void Outbox::flush_locked() {
  is_urgent_ = false;
  if (channel_.unflushed_bytes() > 0) static_cast<void>(channel_.flush());
}

void Outbox::flush() {
  const std::lock_guard lock(mutex_);
  flush_locked();
}

void Outbox::flush_if_large() {
  const std::lock_guard lock(mutex_);
  if (channel_.unflushed_bytes() >= kBatchBytes) flush_locked();
}

void Outbox::flush_if_due() {
  const std::lock_guard lock(mutex_);
  if (is_urgent_ || channel_.unflushed_bytes() >= kBatchBytes) flush_locked();
}

}  // namespace sluice::server
