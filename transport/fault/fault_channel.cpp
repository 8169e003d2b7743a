#include "transport/fault/fault_channel.h"

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

namespace sluice::transport {
namespace {

constexpr std::size_t kBatchBytes = 64 * 1024;
constexpr unsigned kDelayOneIn = 16;

/// The choices of one side; the two sides run in two threads, so each has its own.
class Mischief {
 public:
  Mischief(const Faults& faults, std::uint64_t cut_after_bytes, std::uint64_t salt)
      : faults_(faults), cut_in_bytes_(cut_after_bytes), random_(faults.seed * 2 + salt) {}

  void maybe_delay() {
    if (faults_.delay_max.count() == 0 || random_() % kDelayOneIn != 0) return;
    const auto limit_us = static_cast<std::uint64_t>(faults_.delay_max.count());
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % (limit_us + 1)));
  }

  /// How much of `bytes` to pass on in one go; 0 = the cut is here.
  std::size_t piece(std::size_t bytes) {
    if (faults_.piece_bytes_max != 0)
      bytes = std::min<std::size_t>(bytes, 1 + random_() % faults_.piece_bytes_max);
    return static_cast<std::size_t>(std::min<std::uint64_t>(bytes, cut_in_bytes_));
  }
  void passed(std::size_t bytes) {
    if (cut_in_bytes_ != UINT64_MAX) cut_in_bytes_ -= bytes;
  }
  [[nodiscard]] bool is_cut() const { return cut_in_bytes_ == 0; }

 private:
  const Faults faults_;
  std::uint64_t cut_in_bytes_;
  std::mt19937_64 random_;
};

class FaultChannel final : public Channel {
 public:
  FaultChannel(std::unique_ptr<Channel> inner, const Faults& faults)
      : inner_(std::move(inner)),
        sending_(faults, faults.cut_after_sent_bytes, 0),
        receiving_(faults, faults.cut_after_received_bytes, 1),
        batch_(std::min(kBatchBytes, inner_->caps().reserve_bytes_max)) {}

  std::span<std::byte> reserve(std::size_t bytes) override {
    if (bytes > batch_.size() || !send_status_) return {};
    if (used_ + bytes > batch_.size() && !flush()) return {};
    return {batch_.data() + used_, bytes};
  }

  void commit(std::size_t bytes, FlushHint hint) override {
    used_ += bytes;
    if (hint == FlushHint::kNow) static_cast<void>(flush());
  }

  Status flush() override {
    const std::size_t bytes = std::exchange(used_, 0);
    return send({batch_.data(), bytes});
  }

  [[nodiscard]] std::size_t unflushed_bytes() const override { return used_; }

  Status write_through(std::span<const std::byte> bytes) override {
    SLUICE_CHECK(flush());
    return send(bytes);
  }

  Result<std::size_t> poll(RecvSink& sink, std::size_t budget_bytes) override {
    receiving_.maybe_delay();
    if (receiving_.is_cut()) return cut();
    Pieces pieces(receiving_, sink);
    // A budget at the cut makes everything after it stay in the inner channel.
    return inner_->poll(pieces, std::max<std::size_t>(receiving_.piece(budget_bytes), 1));
  }

  Result<bool> wait(Deadline deadline) override {
    return receiving_.is_cut() ? true : inner_->wait(deadline);
  }
  [[nodiscard]] int wait_fd() const override { return inner_->wait_fd(); }

  [[nodiscard]] Caps caps() const override {
    Caps caps = inner_->caps();
    caps.reserve_bytes_max = batch_.size();
    return caps;
  }

  void set_while_blocked(std::function<void()> what) override {
    inner_->set_while_blocked(std::move(what));
  }
  void close() noexcept override { inner_->close(); }
  void abandon_in_child() noexcept override { inner_->abandon_in_child(); }

 private:
  /// Passes received bytes on in pieces, up to the cut.
  class Pieces final : public RecvSink {
   public:
    Pieces(Mischief& mischief, RecvSink& sink) : mischief_(mischief), sink_(sink) {}
    Status on_bytes(std::span<const std::byte> bytes) override {
      while (!bytes.empty() && !mischief_.is_cut()) {
        const std::size_t bytes_now = mischief_.piece(bytes.size());
        SLUICE_CHECK(sink_.on_bytes(bytes.first(bytes_now)));
        mischief_.passed(bytes_now);
        bytes = bytes.subspan(bytes_now);
      }
      return {};
    }

   private:
    Mischief& mischief_;
    RecvSink& sink_;
  };

  tl::unexpected<Error> cut() {
    inner_->close();
    return fail(ErrorCode::kPeerClosed, "the connection was cut (injected fault)");
  }

  Status send(std::span<const std::byte> bytes) {
    if (!send_status_) return send_status_;
    while (!bytes.empty() && send_status_) {
      sending_.maybe_delay();
      const std::size_t bytes_now = sending_.piece(bytes.size());
      send_status_ = bytes_now == 0 ? Status(cut()) : inner_->write_through(bytes.first(bytes_now));
      sending_.passed(bytes_now);
      bytes = bytes.subspan(bytes_now);
    }
    if (send_status_ && bytes.empty()) send_status_ = inner_->flush();
    return send_status_;
  }

  std::unique_ptr<Channel> inner_;
  Mischief sending_, receiving_;
  std::vector<std::byte> batch_;
  std::size_t used_ = 0;
  Status send_status_;  ///< the first failure stays
};

}  // namespace

std::unique_ptr<Channel> make_fault_channel(std::unique_ptr<Channel> inner, const Faults& faults) {
  return std::make_unique<FaultChannel>(std::move(inner), faults);
}

}  // namespace sluice::transport
