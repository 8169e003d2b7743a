// Two ends in one process: a bounded byte queue in each direction, so that back-pressure is as real as on a socket.
#include "transport/transport.h"

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

namespace sluice::transport {
namespace {

constexpr std::size_t kQueueBytesMax = 1024 * 1024;
constexpr std::size_t kBatchBytes = 128 * 1024;

/// One direction. Thread-safe.
class ByteQueue {
 public:
  Status push(std::span<const std::byte> bytes) {
    std::unique_lock lock(mutex_);
    while (!bytes.empty()) {
      changed_.wait(lock, [&] { return is_closed_ || bytes_.size() < kQueueBytesMax; });
      if (is_closed_) return fail(ErrorCode::kPeerClosed, "the peer closed the channel");
      const std::size_t piece = std::min(bytes.size(), kQueueBytesMax - bytes_.size());
      bytes_.insert(bytes_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(piece));
      bytes = bytes.subspan(piece);
      changed_.notify_all();
    }
    return {};
  }

  Result<std::vector<std::byte>> take() {
    std::lock_guard lock(mutex_);
    if (bytes_.empty() && is_closed_) return fail(ErrorCode::kPeerClosed, "the peer closed the channel");
    changed_.notify_all();
    return std::exchange(bytes_, {});
  }

  bool wait(Deadline deadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [&] { return is_closed_ || !bytes_.empty(); });
  }

  void close() {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte> bytes_;
  bool is_closed_ = false;
};

// shared_ptr: both ends share the two queues, whichever lives longer is last.
using Queue = std::shared_ptr<ByteQueue>;

class LoopChannel final : public Channel {
 public:
  LoopChannel(Queue out, Queue in) : out_(std::move(out)), in_(std::move(in)), batch_(kBatchBytes) {}
  ~LoopChannel() override { close(); }
  LoopChannel(const LoopChannel&) = delete;
  LoopChannel& operator=(const LoopChannel&) = delete;

  std::span<std::byte> reserve(std::size_t bytes) override {
    if (bytes > batch_.size()) return {};
    if (used_ + bytes > batch_.size() && !flush()) return {};
    return {batch_.data() + used_, bytes};
  }
  void commit(std::size_t bytes, FlushHint hint) override {
    used_ += bytes;
    if (hint == FlushHint::kNow) static_cast<void>(flush());
  }
  Status flush() override {
    const std::span<const std::byte> batch(batch_.data(), std::exchange(used_, 0));
    return out_->push(batch);
  }
  [[nodiscard]] std::size_t unflushed_bytes() const override { return used_; }
  Status write_through(std::span<const std::byte> bytes) override {
    SLUICE_CHECK(flush());
    return out_->push(bytes);
  }
  Result<std::size_t> poll(RecvSink& sink, std::size_t) override {
    SLUICE_TRY(const std::vector<std::byte> bytes, in_->take());
    if (!bytes.empty()) SLUICE_CHECK(sink.on_bytes(bytes));
    return bytes.size();
  }
  Result<bool> wait(Deadline deadline) override { return in_->wait(deadline); }
  [[nodiscard]] int wait_fd() const override { return -1; }
  [[nodiscard]] Caps caps() const override {
    return Caps{.reserve_bytes_max = kBatchBytes, .same_host = true, .encrypted = false, .name = "loop"};
  }
  void close() noexcept override {
    out_->close();
    in_->close();
  }

 private:
  Queue out_, in_;
  std::vector<std::byte> batch_;
  std::size_t used_ = 0;
};

}  // namespace

LoopPair make_loop_pair() {
  const auto up = std::make_shared<ByteQueue>();
  const auto down = std::make_shared<ByteQueue>();
  return {std::make_unique<LoopChannel>(up, down), std::make_unique<LoopChannel>(down, up)};
}

}  // namespace sluice::transport
