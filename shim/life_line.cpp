#include "shim/life_line.h"

#include "common/format.h"
#include "common/log.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace sluice::shim {
namespace {

LifeLine::Milliseconds milliseconds_from(const char* variable, std::uint32_t advised) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return LifeLine::Milliseconds(advised);
  std::uint32_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error == std::errc{} && stop == end) return LifeLine::Milliseconds(value);
  SLUICE_LOG_WARN("session", "{}={} is no number of milliseconds; the server's advice is taken",
                  variable, text);
  return LifeLine::Milliseconds(advised);
}

}  // namespace

LifeLine::Heartbeat LifeLine::heartbeat_of(const wire::Welcome& welcome) {
  if ((welcome.feature_bits & wire::kFeatureHeartbeat) == 0) return {};
  return {milliseconds_from("SLUICE_HEARTBEAT_MS", welcome.heartbeat_ms),
          milliseconds_from("SLUICE_HEARTBEAT_TIMEOUT_MS", welcome.heartbeat_timeout_ms)};
}

LifeLine::LifeLine(std::unique_ptr<ByteStream> stream, Heartbeat heartbeat,
                   std::optional<Resumable> resumable)
    : heartbeat_(heartbeat), stream_(std::move(stream)) {
  if (resumable)
    resumption_ = std::make_unique<Resumption>(
        std::move(*resumable),
        [this](std::unique_ptr<ByteStream> replacement) { take(std::move(replacement)); });
}

std::optional<Error> LifeLine::watch(Time now) {
  if (resumption_ != nullptr && resumption_->is_active()) return resumption_->failure();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || stream_ == nullptr || now - last_look_ < kLookInterval)
    return std::nullopt;
  if (resumption_ != nullptr && resumption_->is_active()) return std::nullopt;
  if (resumption_ != nullptr && resumption_->is_needed() && seek_replacement(now))
    return std::nullopt;
  return look(now);
}

bool LifeLine::seek_replacement(Time silent_since) {
  if (resumption_ == nullptr) return false;
  resumption_->begin(silent_since);
  return true;
}

bool LifeLine::survives(ByteStream::Ending ending) const {
  if (resumption_ == nullptr) return false;
  return ending == ByteStream::Ending::kSilence ||
         (ending == ByteStream::Ending::kReset && resumption_->survives_reset());
}

void LifeLine::take(std::unique_ptr<ByteStream> replacement) {
  const std::lock_guard lock(mutex_);
  if (is_given_up_) return;
  stream_ = std::move(replacement);
  unread_.clear();
  pongs_ = pings_;  // those that were asked on the old one are not answered here
  pings_before_rest_ = pings_;
  last_look_ = last_ping_ = silent_since_ = std::chrono::steady_clock::now();
}

std::optional<Error> LifeLine::look(Time now) {
  // After a time in which nobody looked, silence proves nothing yet.
  const bool has_rested = now - last_look_ > std::max(heartbeat_.interval, Milliseconds(1000));
  last_look_ = now;
  if (has_rested) {
    silent_since_ = now;
    pings_before_rest_ = pings_;
  }
  if (auto over = read(now)) return over;
  if (heartbeat_.interval.count() == 0) return std::nullopt;
  if (resumption_ != nullptr && resumption_->is_active()) return std::nullopt;
  if (has_rested || now - last_ping_ >= heartbeat_.interval) ping(now);
  auto silence = judge(now);
  if (silence && seek_replacement(silent_since_)) return std::nullopt;
  return silence;
}

void LifeLine::give_up() noexcept {
  if (resumption_ != nullptr) resumption_->stop();
  const std::lock_guard lock(mutex_);
  is_given_up_ = true;
  if (stream_ != nullptr) stream_->close();
}

void LifeLine::abandon_in_child() noexcept {
  if (stream_ != nullptr) stream_->abandon_in_child();
}

void LifeLine::ping(Time now) {
  last_ping_ = now;
  // This process may have been stopped between an answer and this question.
  if (pings_ == pongs_) silent_since_ = now;
  const std::vector<std::byte> frame = wire::encode_frame(wire::Ping{++pings_});
  // A frame of a few bytes; if there is no room even for that, the server does not read.
  static_cast<void>(stream_->send_some(frame));
}

/// Everything that is there; false: the stream has ended.
bool LifeLine::take_bytes(Time now) {
  std::byte piece[512];
  auto got = stream_->receive_some(piece);
  for (; got && *got > 0; got = stream_->receive_some(piece)) {
    silent_since_ = now;
    unread_.insert(unread_.end(), piece, piece + *got);
  }
  return got.has_value();
}

std::optional<Error> LifeLine::read(Time now) {
  const bool is_open = take_bytes(now);
  // Why it ends is said before the end, and may be found only now.
  if (auto over = take_frames()) return over;
  if (is_open || (survives(stream_->ending()) && seek_replacement(now))) return std::nullopt;
  return Error{ErrorCode::kPeerClosed, "the server closed the session's life line"};
}

std::optional<Error> LifeLine::last_word(Milliseconds patience) {
  const std::lock_guard lock(mutex_);
  if (stream_ == nullptr) return std::nullopt;
  const Time deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const bool is_open = take_bytes(std::chrono::steady_clock::now());
    if (auto over = take_frames()) return over;
    if (!is_open) return std::nullopt;
    const auto more = stream_->wait(ByteStream::For::kReceive, deadline);
    if (!more || !*more) return std::nullopt;
  }
}

std::optional<Error> LifeLine::take_frames() {
  while (unread_.size() >= wire::kFramePrefixBytes) {
    const auto bytes = wire::frame_bytes(std::span(unread_).first(wire::kFramePrefixBytes));
    if (!bytes) return bytes.error();
    if (unread_.size() < *bytes) break;
    const auto frame = wire::decode_frame(std::span(unread_).first(*bytes));
    unread_.erase(unread_.begin(), unread_.begin() + static_cast<std::ptrdiff_t>(*bytes));
    if (!frame) return frame.error();
    if (auto over = take(*frame)) return over;
  }
  return std::nullopt;
}

std::optional<Error> LifeLine::take(const wire::Frame& frame) {
  if (const auto* ending = std::get_if<wire::Ending>(&frame)) {
    if (ending->in_ms == 0) return Error{ErrorCode::kPeerClosed, ending->message};
    SLUICE_LOG_WARN("session", "The server announces the end of the session: {}", ending->message);
  }
  const auto* pong = std::get_if<wire::Pong>(&frame);
  if (pong == nullptr) return std::nullopt;
  pongs_ = std::max(pongs_, pong->number);
  // What it says of the worker was true when it was asked.
  const bool is_old = pings_before_rest_ > 0 && pong->number <= pings_before_rest_;
  if (!is_old && heartbeat_.timeout.count() > 0 &&
      Milliseconds(pong->worker_silent_ms) > std::max(heartbeat_.timeout, Milliseconds(2000)))
    return Error{ErrorCode::kTimeout,
                 format("the session's worker has been silent for {} ms", pong->worker_silent_ms)};
  return std::nullopt;
}

std::optional<Error> LifeLine::judge(Time now) {
  const auto silence = std::chrono::duration_cast<Milliseconds>(now - silent_since_);
  if (heartbeat_.timeout.count() == 0 || pings_ == pongs_ || silence < heartbeat_.timeout)
    return std::nullopt;
  return Error{ErrorCode::kTimeout,
               format("the server has been silent for {} ms", silence.count())};
}

}  // namespace sluice::shim
