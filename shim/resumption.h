// What happens when the network takes the server away without a word: new connections are tried
// until the server's grace time is over, and the session goes on over them as if nothing had been.
// A thread does it that lives no longer than the trouble.
#pragma once

#include "common/result.h"
#include "protocol/bootstrap.h"
#include "shim/futex.h"
#include "transport/resume/resumable_stream.h"
#include "transport/tls/client_choice.h"
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
Result<ResumeAfter> parse_resume(const char* text, const wire::Welcome& welcome,
                                 bool is_encrypted = false);

/// How an encrypted session's life line was made secure, and is again.
struct Encryption {
  transport::tls::ClientChoice choice;
  std::string host;  ///< whom the server's certificate must be for
};
/// The program may change its folder; the files are read again.
Encryption encryption_of(transport::tls::ClientChoice choice, std::string host);

/// A session whose connections can be replaced.
struct Resumable {
  transport::Address server;  ///< no name to look up: the network may be away
  wire::Resume identity;
  std::chrono::milliseconds grace{0};
  bool survives_reset = false;
  std::optional<Encryption> encryption = {};
  /// The channel's: that for records, and its lanes in order.
  std::vector<transport::ResumableStream*> data;
};
/// As far as the handshake tells; `encryption` and `data` follow.
Result<Resumable> resumable_of(int life_line, const wire::Welcome& welcome, ResumeAfter after);

/// Thread-safe; begin() by one thread at a time.
class Resumption {
 public:
  using Stream = std::unique_ptr<transport::ByteStream>;
  using TakeLifeLine = std::function<void(Stream)>;
  /// `take_life_line` gets the new connection, on the thread that made it.
  Resumption(Resumable session, TakeLifeLine take_life_line);
  ~Resumption();
  Resumption(const Resumption&) = delete;
  Resumption& operator=(const Resumption&) = delete;

  [[nodiscard]] bool survives_reset() const { return session_.survives_reset; }
  /// A data connection broke.
  [[nodiscard]] bool is_needed() const;
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
  void send_rest();
  Status try_until_deadline();
  /// kPermission and kProtocol: never again. Any other error: perhaps the next time.
  Status attempt();
  Status replace_life_line();
  Status replace_data(std::size_t lane);
  Result<Stream> ask(wire::Resume::Line line, std::size_t lane = 0);
  Result<Stream> ask_encrypted_data(std::size_t lane);
  [[nodiscard]] Result<Stream> open_life_line(Fd socket, transport::Deadline deadline) const;
  [[nodiscard]] wire::Resume next_resume(wire::Resume::Line line, std::size_t lane);
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
  std::vector<Stream> asked_;
};

}  // namespace sluice::shim
