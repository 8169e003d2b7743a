#include "transport/emulate/emulated_stream.h"

#include "common/quiet_thread.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace sluice::transport::emulate {
namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;
/// A link without a limit would take memory without one.
constexpr std::size_t kUnderWayBytesMax = 256 * 1024 * 1024;
/// What the far end keeps for a program that does not read.
constexpr std::size_t kArrivedBytesMax = 4 * 1024 * 1024;

/// The connection below may be replaced by another with another descriptor (resume/), so nobody
/// sleeps on it for longer; and where it has nothing to give although it says so, for a moment.
constexpr std::chrono::milliseconds kLookInterval{50};
constexpr std::chrono::microseconds kNap{200}, kNapCut{5000};

/// Something that is so or not, and can be polled for.
class Flag {
 public:
  Flag() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  void set(bool value) {
    if (value == is_set_) return;
    is_set_ = value;
    std::uint64_t count = 1;
    if (value)
      static_cast<void>(::write(fd_.get(), &count, sizeof count));
    else
      static_cast<void>(::read(fd_.get(), &count, sizeof count));
  }
  [[nodiscard]] int fd() const { return fd_.get(); }
  void reset() { fd_.reset(); }

 private:
  Fd fd_;
  bool is_set_ = false;
};

/// What is on its way in one direction, and what has arrived and nobody has taken.
class DelayLine {
 public:
  void put(std::span<const std::byte> bytes, Deadline due) {
    last_due_ = std::max(last_due_, due);  // jitter never overtakes
    on_way_.push_back({{bytes.begin(), bytes.end()}, last_due_});
    bytes_ += bytes.size();
  }
  [[nodiscard]] std::span<const std::byte> arrived(Deadline now) {
    for (; !on_way_.empty() && on_way_.front().due <= now; on_way_.pop_front()) {
      arrived_bytes_ += on_way_.front().bytes.size();
      arrived_.push_back(std::move(on_way_.front().bytes));
    }
    if (arrived_.empty()) return {};
    return std::span(arrived_.front()).subspan(taken_);
  }
  void take(std::size_t bytes) {
    taken_ += bytes;
    bytes_ -= bytes;
    arrived_bytes_ -= bytes;
    if (taken_ < arrived_.front().size()) return;
    arrived_.pop_front();
    taken_ = 0;
  }
  void drop() {
    on_way_.clear();
    arrived_.clear();
    bytes_ = arrived_bytes_ = taken_ = 0;
  }
  [[nodiscard]] bool is_empty() const { return bytes_ == 0; }
  [[nodiscard]] bool is_full() const {
    return bytes_ >= kUnderWayBytesMax || arrived_bytes_ >= kArrivedBytesMax;
  }
  [[nodiscard]] Deadline next_due() const {
    return on_way_.empty() ? Deadline::max() : on_way_.front().due;
  }
  [[nodiscard]] Deadline last_due() const { return last_due_; }

 private:
  struct Piece {
    std::vector<std::byte> bytes;
    Deadline due;
  };
  std::deque<Piece> on_way_;
  std::deque<std::vector<std::byte>> arrived_;
  std::size_t taken_ = 0;  ///< of the first that has arrived
  std::size_t bytes_ = 0, arrived_bytes_ = 0;
  Deadline last_due_{};
};

class EmulatedStream final : public ByteStream {
 public:
  EmulatedStream(std::unique_ptr<ByteStream> inner, std::shared_ptr<Link> link,
                 std::chrono::milliseconds patience)
      : inner_(std::move(inner)), link_(std::move(link)), patience_(patience) {
    is_writable_.set(true);
  }
  ~EmulatedStream() override {
    close();
    if (thread_) ::pthread_join(*thread_, nullptr);
  }

  Status start() {
    SLUICE_TRY(thread_, start_quiet_thread(
                            "sluice-emulate",
                            [](void* self) -> void* {
                              static_cast<EmulatedStream*>(self)->run();
                              return nullptr;
                            },
                            this));
    return {};
  }

  Result<std::size_t> send_some(std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return fail(ErrorCode::kPeerClosed, "sending: this connection is closed");
    if (send_error_) return fail(*send_error_);
    if (!has_room()) {
      is_writable_.set(false);
      is_sender_held_ = true;
      wake();
      return std::size_t{0};
    }
    const std::size_t taken = std::min(bytes.size(), kPieceBytes);
    out_.put(bytes.first(taken), link_->carry(Link::Way::kOut, taken));
    wake();
    return taken;
  }

  Result<std::size_t> receive_some(std::span<std::byte> into) override {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    std::size_t total = 0;
    while (total < into.size()) {
      const std::span<const std::byte> there = in_.arrived(now);
      if (there.empty()) break;
      const std::size_t bytes = std::min(there.size(), into.size() - total);
      std::memcpy(into.data() + total, there.data(), bytes);
      in_.take(bytes);
      total += bytes;
    }
    if (total > 0) {
      if (is_in_held_) wake();
    } else if (has_ended(now)) {
      return fail(receive_error_ ? *receive_error_
                                 : Error{ErrorCode::kPeerClosed, "this connection is closed"});
    }
    is_readable_.set(is_readable(now));
    return total;
  }

  Result<bool> wait(For what, Deadline deadline) override {
    return wait_on(what == For::kSend ? is_writable_.fd() : is_readable_.fd(), For::kReceive,
                   deadline);
  }
  [[nodiscard]] int fd() const override { return is_readable_.fd(); }
  [[nodiscard]] Kind kind() const override { return inner_->kind(); }

  void close() noexcept override {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return;
    is_closed_ = true;
    close_by_ = std::max(out_.last_due(), Clock::now()) + patience_;
    is_readable_.set(true);
    is_writable_.set(true);
    wake();
  }
  void abandon_in_child() noexcept override {
    thread_.reset();  // it stayed in the parent
    inner_->abandon_in_child();
    for (Flag* flag : {&is_readable_, &is_writable_, &has_news_}) flag->reset();
  }

 private:
  // ---- mutex_ is held
  void wake() { has_news_.set(true); }
  [[nodiscard]] bool has_room() {
    return !out_.is_full() && link_->ready_at(Link::Way::kOut) <= Clock::now();
  }
  [[nodiscard]] bool has_ended(Deadline now) const {
    return is_closed_ || (receive_error_ && in_.is_empty() && ended_at_ <= now);
  }
  [[nodiscard]] bool is_readable(Deadline now) {
    return !in_.arrived(now).empty() || has_ended(now);
  }

  void fail_sending(const Error& why) {
    send_error_ = why;
    out_.drop();
    is_writable_.set(true);
  }

  /// Hands over what has arrived at the other end. True: the peer takes no more for the moment.
  bool deliver_out(Deadline now) {
    for (;;) {
      const std::span<const std::byte> due = out_.arrived(now);
      if (due.empty()) return false;
      const auto sent = inner_->send_some(due);
      if (!sent) {
        fail_sending(sent.error());
        return false;
      }
      if (*sent == 0) return true;
      has_moved_ = true;
      out_.take(*sent);
    }
  }

  /// Puts what the peer has sent on the link.
  void take_in() {
    while (!receive_error_ && !is_closed_) {
      is_in_held_ = in_.is_full();
      if (is_in_held_ || link_->ready_at(Link::Way::kIn) > Clock::now()) return;
      const auto got = inner_->receive_some(buffer_);
      if (!got) {
        receive_error_ = got.error();
        ended_at_ = std::max(in_.last_due(), link_->carry(Link::Way::kIn, 0));
        fail_sending(got.error());
        return;
      }
      if (*got == 0) return;
      has_moved_ = true;
      in_.put({buffer_.data(), *got}, link_->carry(Link::Way::kIn, *got));
    }
  }

  void release_sender() {
    if (!is_sender_held_ || !has_room()) return;
    is_sender_held_ = false;
    is_writable_.set(true);
  }

  /// The next moment after `now` at which something happens by itself.
  [[nodiscard]] Deadline next(Deadline now, bool takes_in) {
    Deadline next = Deadline::max();
    next = std::min(next, out_.next_due());
    if (is_closed_) return std::min(next, close_by_);
    next = std::min(next, in_.next_due());
    if (receive_error_ && ended_at_ > now) next = std::min(next, ended_at_);
    if (is_sender_held_ && !out_.is_full()) next = std::min(next, link_->ready_at(Link::Way::kOut));
    if (!takes_in && !receive_error_ && !is_in_held_)
      next = std::min(next, link_->ready_at(Link::Way::kIn));
    return next;
  }

  /// One round; false: the connection is closed and over.
  bool turn(pollfd* inner, Deadline* until) {
    const std::lock_guard lock(mutex_);
    has_news_.set(false);
    has_moved_ = false;
    const short said = inner->fd >= 0 ? inner->revents : short{0};
    const bool is_out_held = deliver_out(Clock::now());
    take_in();
    release_sender();
    const auto now = Clock::now();
    // A peer that reads, however slowly, gets all of it.
    if (is_closed_ && has_moved_) close_by_ = std::max(close_by_, now + patience_);
    if (is_closed_ && (out_.is_empty() || now >= close_by_)) {
      inner_->close();
      return false;
    }
    is_readable_.set(is_readable(now));
    const bool takes_in =
        !receive_error_ && !is_closed_ && !is_in_held_ && link_->ready_at(Link::Way::kIn) <= now;
    inner->events = static_cast<short>((takes_in ? POLLIN : 0) | (is_out_held ? POLLOUT : 0));
    // A descriptor of which nothing is asked would still wake us for a peer that is gone.
    inner->fd = inner->events != 0 ? inner_->fd() : -1;
    *until = std::min(next(now, takes_in), now + kLookInterval);
    if (said == 0 || has_moved_ || receive_error_) return true;
    inner->fd = -1;
    *until = std::min<Deadline>(*until, now + ((said & (POLLHUP | POLLERR)) != 0 ? kNapCut : kNap));
    return true;
  }

  void run() {
    ::prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0);
    pollfd fds[2] = {{-1, 0, 0}, {has_news_.fd(), POLLIN, 0}};
    for (Deadline until; turn(&fds[0], &until);) {
      const auto left_ns = std::chrono::nanoseconds(left_until(until)).count();
      const timespec left{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
      ::ppoll(fds, 2, &left, nullptr);
    }
  }

  std::unique_ptr<ByteStream> inner_;
  std::shared_ptr<Link> link_;
  const std::chrono::milliseconds patience_;
  std::optional<pthread_t> thread_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kPieceBytes);  ///< the thread's

  std::mutex mutex_;  ///< guards what follows
  DelayLine out_, in_;
  Flag is_readable_, is_writable_, has_news_;
  bool is_sender_held_ = false;
  bool is_in_held_ = false;
  bool is_closed_ = false;
  bool has_moved_ = false;  ///< bytes, in this turn
  Deadline close_by_{};
  std::optional<Error> send_error_, receive_error_;
  Deadline ended_at_{};
};

}  // namespace

Result<std::unique_ptr<ByteStream>> make_emulated_stream(std::unique_ptr<ByteStream> inner,
                                                         std::shared_ptr<Link> link,
                                                         std::chrono::milliseconds patience) {
  auto made = std::make_unique<EmulatedStream>(std::move(inner), std::move(link), patience);
  SLUICE_CHECK(made->start());
  return made;
}

}  // namespace sluice::transport::emulate
