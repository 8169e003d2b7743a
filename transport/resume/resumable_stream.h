// A stream of bytes that outlives its connections: when one is cut, another takes its place, and
// both ends go on where they were, each byte exactly once and in order. Nothing travels besides the
// bytes: the receiver counts them, and the sender keeps those that the peer's host has not yet
// confirmed (the host kernel knows how many, SIOCOUTQ). Confirmed bytes that were not read lie in
// the peer's host kernel; the peer takes them out before it says how many it has. A TCP proxy on
// the way confirms what it may then lose: such a stream cannot be resumed after a cut, and says so.
//
// Who resumes and how they find each other is not decided here; handover.h has the two ends'
// exchange.
#pragma once

#include "transport/resume/sent_bytes.h"
#include "transport/stream/byte_stream.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace sluice::transport {

/// As any ByteStream. While its connection is cut or suspended nothing is there and nothing fits;
/// an end that the options do not allow to survive is an end.
class ResumableStream final : public ByteStream {
 public:
  /// `survives_reset`: a reset is a cut; else it is the end of the stream. Silence that the host
  /// kernel gave up on always is a cut, an orderly end never.
  ResumableStream(std::unique_ptr<ByteStream> first, bool survives_reset);

  Result<std::size_t> send_some(std::span<const std::byte> bytes) override;
  Result<std::size_t> receive_some(std::span<std::byte> into) override;
  Result<bool> wait(For what, Deadline deadline) override;
  [[nodiscard]] int fd() const override;
  [[nodiscard]] Kind kind() const override { return kind_; }
  [[nodiscard]] std::span<std::byte> send_buffer() override;
  void close() noexcept override;
  void abandon_in_child() noexcept override;

  // ---- resumption; thread-safe, by one thread at a time
  /// The connection broke, and waits to be replaced.
  [[nodiscard]] bool is_cut() const { return state_ == State::kCut; }
  /// While set, every end of the connection is a cut: its replacement is under way.
  void expect_cut(bool is_expected) { expects_cut_ = is_expected; }
  /// The present connection is used no more, neither way.
  void suspend();
  /// Suspended: takes what lies unread in the old connection; how many bytes were received in all.
  /// Whatever the peer's host knows to be confirmed when this begins is counted.
  std::uint64_t drain();
  /// Suspended: goes on over `next`, whose peer has received so many bytes. Err(kProtocol): that
  /// cannot be, or the bytes are no longer there; the stream stays suspended.
  Status resume(std::unique_ptr<ByteStream> next, std::uint64_t peer_received);
  /// After resume(): hands over again what the peer lacks (send_some() does so, too). Returns when
  /// that is done, the connection is lost again, or `stops`.
  void send_rest(const std::function<bool()>& stops);
  /// The same as far as the connection takes it now. True: there is no more to hand over to it.
  bool push_rest();
  /// Bytes that are kept for sending again.
  [[nodiscard]] std::size_t kept_bytes() const;

 private:
  enum class State { kOpen, kCut, kSuspended };

  Result<bool> push_kept();
  Result<std::size_t> send_new(std::span<const std::byte> bytes);
  std::size_t report_ahead(std::size_t offered_bytes);
  void forget_confirmed();
  /// Cut (nothing) or over (the error)?
  Status judge(const ByteStream* broken, const Error& error);
  [[nodiscard]] std::shared_ptr<ByteStream> inner(std::mutex& side) const;

  const Kind kind_;
  const bool survives_reset_;
  std::atomic<bool> expects_cut_{false}, is_closed_{false};
  // Lock order: receive_mutex_ before send_mutex_. inner_ is replaced under both; a side that holds
  // its own may use it.
  mutable std::mutex receive_mutex_, send_mutex_;
  std::shared_ptr<ByteStream> inner_;
  std::atomic<ByteStream*> raw_inner_;  ///< for a forked child, which may lock nothing
  std::atomic<State> state_{State::kOpen};
  // ---- sending side
  SentBytes sent_;
  std::uint64_t handed_over_ = 0;  ///< to the present connection, as a position
  /// The last bytes of sent_ that the peer may have although send_some() has not reported them.
  std::size_t ahead_ = 0;
  std::size_t forget_at_bytes_;
  // ---- receiving side
  std::uint64_t received_ = 0;
  std::vector<std::byte> drained_;  ///< received from an old connection, not yet given
  std::size_t drained_given_ = 0;
};

}  // namespace sluice::transport
