// What happens when the network takes the server away without a word: new connections are tried
// until the server's grace time is over, and the session goes on over them as if nothing had been.
// A thread does it that lives no longer than the trouble.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "protocol/bootstrap.h"
#include "shim/futex.h"
#include "transport/resume/resumable_stream.h"
#include "transport/transport.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace sluice::shim {

/// SLUICE_RESUME; absent, the server's advice.
enum class ResumeAfter { kNothing, kSilence, kReset };
Result<ResumeAfter> parse_resume(const char* text, const wire::Welcome& welcome);

/// A session whose connections can be replaced.
struct Resumable {
  transport::Address server;  ///< no name to look up: the network may be away
  wire::Resume identity;
  std::chrono::milliseconds grace{0};
  bool survives_reset = false;
  transport::ResumableStream* data = nullptr;  ///< the channel's
};
/// As far as the handshake tells; `data` follows.
Result<Resumable> resumable_of(int life_line, const wire::Welcome& welcome, ResumeAfter after);

/// Thread-safe; begin() by one thread at a time.
class Resumption {
 public:
  using TakeLifeLine = std::function<void(Fd)>;
  /// `take_life_line` gets the new connection, on the thread that made it.
  Resumption(Resumable session, TakeLifeLine take_life_line);
  ~Resumption();
  Resumption(const Resumption&) = delete;
  Resumption& operator=(const Resumption&) = delete;

  [[nodiscard]] bool survives_reset() const { return session_.survives_reset; }
  /// The data connection broke.
  [[nodiscard]] bool is_needed() const { return session_.data->is_cut(); }
  /// Tries new connections; nothing was heard of the server since `since`. Only if !is_active().
  void begin(Clock::time_point since) noexcept;
  /// It is being tried, or was in vain: the present connections say nothing any more.
  [[nodiscard]] bool is_active() const { return state_.load() != State::kIdle; }
  [[nodiscard]] std::optional<Error> failure() const;
  /// Tries no more. Does not wait.
  void stop() noexcept;

 private:
  enum class State { kIdle, kTrying, kFailed };

  void run() noexcept;
  Status try_until_deadline();
  /// kPermission and kProtocol: never again. Any other error: perhaps the next time.
  Status attempt();
  Status replace_life_line();
  Status replace_data();
  Result<Fd> ask(wire::Resume::Line line);
  void fail_with(Error why);

  const Resumable session_;
  const TakeLifeLine take_life_line_;
  std::atomic<State> state_{State::kIdle};
  std::atomic<bool> stops_{false};
  Error failure_;  ///< once kFailed
  WakeWord word_;
  pthread_t thread_{};
  bool has_thread_ = false;
  // ---- of the thread
  Clock::time_point since_, deadline_;
  std::uint64_t attempts_ = 0;
  bool has_life_line_ = false;
  /// Connections on which the server may have gone over without our knowing it: their end would be
  /// taken for ours.
  std::vector<Fd> asked_;
  std::vector<std::unique_ptr<transport::ByteStream>> asked_streams_;
};

}  // namespace sluice::shim
