// The worker's sending side: replies and pushes, in the order of the calls, batched until somebody
// flushes. What the client may be waiting for is urgent; credit for copies is not.
#pragma once

#include "protocol/all_rows.h"
#include "protocol/wire.h"
#include "transport/transport.h"

#include <atomic>
#include <initializer_list>
#include <mutex>
#include <span>

namespace sluice::server {

/// Thread-safe. A dead channel swallows everything: the decode thread notices and ends the session.
class Outbox {
 public:
  using Bytes = std::span<const std::byte>;
  explicit Outbox(transport::Channel& channel) : channel_(channel) {}

  void send(wire::RecordHeader header, Bytes fixed, std::initializer_list<Bytes> blobs);
  void flush();
  /// Flushes if a batch worth sending has gathered.
  void flush_if_large();
  /// Flushes if something urgent, or a batch worth sending, has gathered.
  void flush_if_due();
  [[nodiscard]] std::uint64_t sent_bytes() const {
    return sent_bytes_.load(std::memory_order_relaxed);
  }

  /// `request` is what the push stems from.
  template <class Push>
  void push(const Push& push, const wire::RecordHeader& request, CUresult result,
            std::initializer_list<Bytes> blobs = {}) {
    wire::RecordHeader header{};
    header.opcode = static_cast<std::uint16_t>(Push::kOpcode);
    header.flags = wire::kFlagPush;
    header.seq = request.seq;
    header.context = request.context;
    header.result = result;
    send(header, {reinterpret_cast<const std::byte*>(&push), sizeof push}, blobs);
  }

 private:
  void append(Bytes bytes);
  void flush_locked();

  transport::Channel& channel_;
  std::mutex mutex_;
  bool is_urgent_ = false;  ///< since the last flush
  std::atomic<std::uint64_t> sent_bytes_{0};
};

}  // namespace sluice::server
