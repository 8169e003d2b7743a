#include "transport/resume/resumable_stream.h"

#include "common/format.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <time.h>

#include <algorithm>
#include <cstring>

namespace sluice::transport {
namespace {

using namespace std::chrono_literals;

/// A sleeper looks again this often whether its connection still is the stream's.
constexpr auto kLookInterval = 50ms;
constexpr auto kLookIntervalCut = 5ms;
/// Kept whatever the host kernel says. Of encrypted bytes a whole record (16 KiB) is lost with its
/// last unconfirmed one; what is still encrypted and unsent counts as not handed over.
constexpr std::size_t kKeptBytesMin = 128 * 1024;
constexpr std::size_t kForgetEveryBytes = 256 * 1024;
/// More than a host kernel lets lie unread.
constexpr std::size_t kDrainBytesMax = 64 * 1024 * 1024;
constexpr std::size_t kDrainPieceBytes = 64 * 1024;

void nap(Deadline until) {
  const auto left =
      std::chrono::nanoseconds(std::min<Clock::duration>(kLookIntervalCut, left_until(until)));
  if (left.count() <= 0) return;
  const timespec time{0, left.count()};
  ::nanosleep(&time, nullptr);
}

/// An error is still to be fetched: whoever sends will be told which.
bool has_error(int fd) {
  pollfd p{fd, 0, 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & POLLERR) != 0;
}

}  // namespace

ResumableStream::ResumableStream(std::unique_ptr<ByteStream> first, bool survives_reset)
    : kind_(first->kind()),
      survives_reset_(survives_reset),
      inner_(std::move(first)),
      raw_inner_(inner_.get()),
      forget_at_bytes_(kKeptBytesMin + kForgetEveryBytes) {}

std::shared_ptr<ByteStream> ResumableStream::inner(std::mutex& side) const {
  const std::lock_guard lock(side);
  return inner_;
}

Result<std::size_t> ResumableStream::send_some(std::span<const std::byte> bytes) {
  std::unique_lock lock(send_mutex_);
  if (is_closed_) return fail(ErrorCode::kPeerClosed, "sending: this connection is closed");
  if (state_ != State::kOpen) return std::size_t{0};
  const ByteStream* const used = inner_.get();
  auto sent = push_kept().and_then([&](bool is_level) -> Result<std::size_t> {
    if (!is_level) return std::size_t{0};
    return ahead_ > 0 ? report_ahead(bytes.size()) : send_new(bytes);
  });
  if (!sent) {
    lock.unlock();
    SLUICE_CHECK(judge(used, sent.error()));
    return std::size_t{0};
  }
  if (sent_.bytes() >= forget_at_bytes_) forget_confirmed();
  return sent;
}

/// The peer has these bytes, and the caller offers them again.
std::size_t ResumableStream::report_ahead(std::size_t offered_bytes) {
  const std::size_t taken = std::min(ahead_, offered_bytes);
  ahead_ -= taken;
  return taken;
}

/// Everything before is handed over. What may reach the peer is kept, taken or not, also if the
/// connection broke.
Result<std::size_t> ResumableStream::send_new(std::span<const std::byte> bytes) {
  const auto sent = inner_->send_some(bytes);
  const std::size_t taken = sent ? *sent : 0;
  ahead_ = std::min(inner_->bytes_ahead(), bytes.size() - taken);
  sent_.append(bytes.first(taken + ahead_));
  handed_over_ += taken;
  return sent;
}

/// True: the connection has everything that was ever sent.
Result<bool> ResumableStream::push_kept() {
  while (handed_over_ < sent_.end()) {
    SLUICE_TRY(const std::size_t sent, inner_->send_some(sent_.at(handed_over_)));
    if (sent == 0) return false;
    handed_over_ += sent;
  }
  return true;
}

void ResumableStream::forget_confirmed() {
  int unconfirmed = 0;
  // Where the host does not know, what is kept may not suffice; resuming then fails, nothing else.
  if (::ioctl(inner_->fd(), SIOCOUTQ, &unconfirmed) != 0 || unconfirmed < 0) unconfirmed = 0;
  const std::uint64_t kept = static_cast<std::size_t>(unconfirmed) + kKeptBytesMin;
  if (handed_over_ > kept) sent_.forget_before(handed_over_ - kept);
  forget_at_bytes_ = sent_.bytes() + kForgetEveryBytes;
}

Result<std::size_t> ResumableStream::receive_some(std::span<std::byte> into) {
  std::unique_lock lock(receive_mutex_);
  if (drained_given_ < drained_.size()) {
    const std::size_t piece = std::min(into.size(), drained_.size() - drained_given_);
    std::memcpy(into.data(), drained_.data() + drained_given_, piece);
    drained_given_ += piece;
    if (drained_given_ == drained_.size()) {
      drained_ = {};
      drained_given_ = 0;
    }
    return piece;
  }
  if (is_closed_) return fail(ErrorCode::kPeerClosed, "this connection is closed");
  if (state_ != State::kOpen) return std::size_t{0};
  const ByteStream* const used = inner_.get();
  auto got = inner_->receive_some(into);
  if (got) {
    received_ += *got;
    return got;
  }
  lock.unlock();
  SLUICE_CHECK(judge(used, got.error()));
  return std::size_t{0};
}

Status ResumableStream::judge(const ByteStream* broken, const Error& error) {
  // The host kernel tells an error once, to one side: with both here, whoever was told has noted
  // it.
  const std::scoped_lock both(receive_mutex_, send_mutex_);
  if (is_closed_) return fail(error);
  if (inner_.get() != broken || state_ != State::kOpen) return {};
  const Ending ending = inner_->ending();
  const bool is_cut =
      expects_cut_ || ending == Ending::kSilence || (ending == Ending::kReset && survives_reset_);
  if (!is_cut) return fail(error);
  state_ = State::kCut;
  return {};
}

Result<bool> ResumableStream::wait(For what, Deadline deadline) {
  const bool sends = what == For::kSend;
  for (;;) {
    if (is_closed_ && sends)
      return fail(ErrorCode::kPeerClosed, "sending: this connection is closed");
    if (is_closed_) return true;  // receive_some() tells
    const auto now = Clock::now();
    if (state_ != State::kOpen) {
      if (now >= deadline) return false;
      nap(deadline);
    } else {
      const auto used = inner(sends ? send_mutex_ : receive_mutex_);
      const auto ready = used->wait(
          what, left_until(deadline, now) > kLookInterval ? now + kLookInterval : deadline);
      if (ready && *ready) return true;
      if (!ready) {
        if (sends && has_error(used->fd())) return true;
        SLUICE_CHECK(judge(used.get(), ready.error()));
        continue;
      }
      if (Clock::now() >= deadline) return false;
    }
    if (!sends) {
      const std::lock_guard lock(receive_mutex_);
      if (drained_given_ < drained_.size()) return true;
    }
  }
}

std::span<std::byte> ResumableStream::send_buffer() {
  const std::lock_guard lock(send_mutex_);
  return sent_.room(kLentBytesMin);
}

int ResumableStream::fd() const {
  return inner(receive_mutex_)->fd();
}

std::size_t ResumableStream::kept_bytes() const {
  const std::lock_guard lock(send_mutex_);
  return sent_.bytes();
}

void ResumableStream::close() noexcept {
  is_closed_ = true;
  inner(receive_mutex_)->close();
}

void ResumableStream::abandon_in_child() noexcept {
  raw_inner_.load()->abandon_in_child();
}

void ResumableStream::suspend() {
  const std::scoped_lock both(receive_mutex_, send_mutex_);
  state_ = State::kSuspended;
}

std::uint64_t ResumableStream::drain() {
  const std::lock_guard lock(receive_mutex_);
  if (state_ != State::kSuspended) return received_;
  while (drained_.size() < kDrainBytesMax) {
    const std::size_t before = drained_.size();
    drained_.resize(before + kDrainPieceBytes);
    const auto got = inner_->receive_some(std::span(drained_).subspan(before));
    drained_.resize(before + (got ? *got : 0));
    if (!got || *got == 0) break;
    received_ += *got;
  }
  return received_;
}

Status ResumableStream::resume(std::unique_ptr<ByteStream> next, std::uint64_t peer_received) {
  const std::scoped_lock both(receive_mutex_, send_mutex_);
  if (is_closed_) return fail(ErrorCode::kPeerClosed, "resuming: this connection is closed");
  if (state_ != State::kSuspended)
    return fail(ErrorCode::kInternal, "resuming a connection that is in use");
  if (peer_received > sent_.end())
    return fail(ErrorCode::kProtocol,
                format("resuming: the peer says that it has received {} bytes of {}", peer_received,
                       sent_.end()));
  if (peer_received < sent_.begin())
    return fail(ErrorCode::kProtocol,
                format("resuming: {} bytes were confirmed on the way and lost all the same; is a "
                       "TCP proxy between client and server?",
                       sent_.begin() - peer_received));
  inner_ = std::move(next);
  raw_inner_ = inner_.get();
  handed_over_ = peer_received;
  sent_.forget_before(peer_received);
  forget_at_bytes_ = sent_.bytes() + kForgetEveryBytes;
  state_ = State::kOpen;
  return {};
}

bool ResumableStream::push_rest() {
  std::unique_lock lock(send_mutex_);
  if (is_closed_ || state_ != State::kOpen) return true;
  const ByteStream* const used = inner_.get();
  const auto is_level = push_kept();
  if (is_level) return *is_level;
  lock.unlock();
  // Its end is also told to whoever uses the stream next.
  static_cast<void>(judge(used, is_level.error()));
  return true;
}

void ResumableStream::send_rest(const std::function<bool()>& stops) {
  while (!stops() && !push_rest()) {
    if (!inner(send_mutex_)->wait(For::kSend, Clock::now() + kLookInterval)) return;
  }
}

}  // namespace sluice::transport
