// The channel over a wire. Payloads go through one small send buffer, so that UCX never holds
// memory of the application.
#include "transport/batching_channel.h"
#include "transport/ucx/plugin/ends.h"

#include <algorithm>
#include <vector>

namespace sluice::transport::ucx {
namespace {

constexpr std::size_t kSendBufferBytes = 64 * 1024;
constexpr std::size_t kReadPieceBytes = 64 * 1024;

class UcxChannel final : public BatchingChannel {
 public:
  explicit UcxChannel(std::unique_ptr<Wire> wire)
      : send_(kSendBufferBytes), wire_(std::move(wire)) {
    gather_in(send_);
  }
  ~UcxChannel() override {
    UcxChannel::close();
    if (!wire_->is_here()) static_cast<void>(wire_.release());  // a forked child
  }
  UcxChannel(const UcxChannel&) = delete;
  UcxChannel& operator=(const UcxChannel&) = delete;

  Result<std::size_t> poll(RecvSink& sink, std::size_t budget_bytes) override {
    std::size_t total = 0;
    while (total < budget_bytes) {
      Wire::Lock lock = wire_->lock();
      Inbox& inbox = wire_->inbox();
      if (inbox.is_empty()) wire_->progress();
      const auto bytes = inbox.readable(std::min(kReadPieceBytes, budget_bytes - total));
      if (bytes.empty()) {
        if (total == 0 && wire_->is_receive_over()) return fail(wire_->why_over("receiving"));
        break;
      }
      lock.unlock();
      const Status taken = sink.on_bytes(bytes);
      lock.lock();
      inbox.consume(bytes.size());
      wire_->grant();
      SLUICE_CHECK(taken);
      total += bytes.size();
    }
    return total;
  }

  Result<bool> wait(Deadline deadline) override {
    Wire::Lock lock = wire_->lock();
    return wire_->wait_for(lock, wire_->receive_bell(), deadline, [this] {
      return !wire_->inbox().is_empty() || wire_->is_receive_over();
    });
  }

  /// UCX's descriptor must be armed before it means anything.
  [[nodiscard]] int wait_fd() const override { return -1; }

  [[nodiscard]] std::span<std::byte> staging() override { return wire_->staging(); }
  [[nodiscard]] RemoteStaging* remote_staging() override { return wire_->remote_staging(); }

  [[nodiscard]] Caps caps() const override {
    return Caps{.reserve_bytes_max = kSendBufferBytes,
                .same_host = false,
                .encrypted = false,
                .name = "ucx"};
  }

  void close() noexcept override {
    if (!wire_->is_here()) return;
    const Wire::Lock lock = wire_->lock();
    wire_->close();
  }

  void abandon_in_child() noexcept override { wire_->keep_life_line(Fd()); }

 private:
  Status send_batch(std::span<const std::byte> batch) override {
    Wire::Lock lock = wire_->lock();
    if (wire_->is_send_over()) return fail(wire_->why_over("sending"));
    return wire_->send(lock, batch, [this] { while_blocked(); });
  }

  std::vector<std::byte> send_;  ///< outlives the wire, which may still point into it
  std::unique_ptr<Wire> wire_;
};

}  // namespace

std::unique_ptr<Channel> make_channel(std::unique_ptr<Wire> wire) {
  return std::make_unique<UcxChannel>(std::move(wire));
}

}  // namespace sluice::transport::ucx
