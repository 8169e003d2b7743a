// Two ends in one process: a bounded byte queue in each direction, so that back-pressure is as real
// as on a socket.
#include "transport/batching_channel.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

namespace sluice::transport {
namespace {

constexpr std::size_t kQueueBytesMax = 1024 * 1024;
constexpr std::size_t kBatchBytes = 64 * 1024;

/// One direction. Thread-safe.
class ByteQueue {
 public:
  template <class WhileBlocked>
  Status push(std::span<const std::byte> bytes, const WhileBlocked& while_blocked) {
    std::unique_lock lock(mutex_);
    const auto may_go_on = [&] {
      return is_closed_ || bytes.empty() || bytes_.size() < kQueueBytesMax;
    };
    for (;;) {
      while (!changed_.wait_for(lock, Channel::kBlockedInterval, may_go_on)) {
        lock.unlock();
        while_blocked();
        lock.lock();
      }
      if (is_closed_) return fail(ErrorCode::kPeerClosed, "sending: the channel is closed");
      if (bytes.empty()) return {};
      const std::span<const std::byte> piece =
          bytes.first(std::min(bytes.size(), kQueueBytesMax - bytes_.size()));
      bytes_.insert(bytes_.end(), piece.begin(), piece.end());
      bytes = bytes.subspan(piece.size());
      changed_.notify_all();
    }
  }

  /// Swaps everything queued into `into`, which keeps its memory for the next round.
  Status take(std::vector<std::byte>& into) {
    into.clear();
    std::lock_guard lock(mutex_);
    if (bytes_.empty() && is_closed_)
      return fail(ErrorCode::kPeerClosed, "the peer closed the channel");
    if (bytes_.empty()) return {};
    bytes_.swap(into);
    changed_.notify_all();
    return {};
  }

  bool wait(Deadline deadline) {
    const auto is_ready = [this] { return is_closed_ || !bytes_.empty(); };
    std::unique_lock lock(mutex_);
    if (deadline != Deadline::max()) return changed_.wait_until(lock, deadline, is_ready);
    changed_.wait(lock, is_ready);
    return true;
  }

  void close() noexcept {
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

/// batch_ belongs to the sending side, taken_ and delivered_ to the receiving side.
class LoopChannel final : public BatchingChannel {
 public:
  LoopChannel(Queue out, Queue in) : out_(std::move(out)), in_(std::move(in)), batch_(kBatchBytes) {
    gather_in(batch_);
  }
  ~LoopChannel() override { close_queues(); }
  LoopChannel(const LoopChannel&) = delete;
  LoopChannel& operator=(const LoopChannel&) = delete;

  Result<std::size_t> poll(RecvSink& sink, std::size_t budget_bytes) override {
    if (delivered_ == taken_.size()) {
      delivered_ = 0;
      SLUICE_CHECK(in_->take(taken_));
    }
    const std::span<const std::byte> rest = std::span(taken_).subspan(delivered_);
    const std::span<const std::byte> piece = rest.first(std::min(rest.size(), budget_bytes));
    if (piece.empty()) return 0;
    delivered_ += piece.size();
    SLUICE_CHECK(sink.on_bytes(piece));
    return piece.size();
  }

  Result<bool> wait(Deadline deadline) override {
    return delivered_ < taken_.size() || in_->wait(deadline);
  }
  [[nodiscard]] int wait_fd() const override { return -1; }

  [[nodiscard]] Caps caps() const override {
    return Caps{
        .reserve_bytes_max = kBatchBytes, .same_host = true, .encrypted = false, .name = "loop"};
  }

  void close() noexcept override { close_queues(); }
  void abandon_in_child() noexcept override {}

 private:
  Status send_batch(std::span<const std::byte> batch) override {
    return out_->push(batch, [this] { while_blocked(); });
  }
  void close_queues() noexcept {
    out_->close();
    in_->close();
  }

  Queue out_, in_;
  std::vector<std::byte> batch_;
  std::vector<std::byte> taken_;
  std::size_t delivered_ = 0;
};

}  // namespace

LoopPair make_loop_pair() {
  const auto up = std::make_shared<ByteQueue>();
  const auto down = std::make_shared<ByteQueue>();
  return {std::make_unique<LoopChannel>(up, down), std::make_unique<LoopChannel>(down, up)};
}

}  // namespace sluice::transport
