// One connection over UCX: a worker and an endpoint under one lock, the messages that travel on it,
// and the wait for them.
//
// Everything is an active message of at most kPieceBytes with the header below. The receiver's
// handler copies it into the inbox. A sender may be kWindowBytes ahead of what the peer's program
// has read; the peer says how far that is in every message, and by a message of its own when a
// quarter of the window was read.
#pragma once

#include "common/result.h"
#include "transport/shm/spin_policy.h"
#include "transport/ucx/plugin/bell.h"
#include "transport/ucx/plugin/context.h"
#include "transport/ucx/plugin/inbox.h"
#include "transport/ucx/plugin/registered_memory.h"
#include "transport/ucx/plugin/staging_port.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sluice::transport::ucx {

/// One fragment of rc_verbs and of tcp, with UCX's headers and ours.
inline constexpr std::size_t kPieceBytes = 7936;
inline constexpr std::size_t kWindowBytes = 1024 * 1024;

enum class Kind : std::uint8_t {
  kHello = 1,  ///< client: the token
  kWelcome,    ///< server: it is the right one
  kData,
  kCredit,
  kEnd,      ///< the sender closed both directions
  kEndSeen,  ///< and the other one knows; nothing is under way any more
};

struct Header {
  Token token{};
  std::uint64_t offset = 0;    ///< of this message's first byte, in its direction
  std::uint64_t consumed = 0;  ///< by the sender's program, of the other direction
};
static_assert(sizeof(Header) == 32);

/// Members without a lock of their own need lock(). Functions that take the lock may release it
/// while they sleep.
class Wire {
 public:
  using Lock = std::unique_lock<std::mutex>;

  static Result<std::unique_ptr<Wire>> make(ucp_context_h context, Lane lane, const Token& token);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  [[nodiscard]] Lock lock() { return Lock(mutex_); }
  /// False in a forked child, where nothing of UCX may be touched.
  [[nodiscard]] bool is_here() const;

  // ---- setting up
  [[nodiscard]] ucp_worker_h worker() const { return worker_; }
  [[nodiscard]] int event_fd() const { return event_fd_; }
  void adopt(ucp_ep_h endpoint) { endpoint_ = endpoint; }
  void keep_life_line(Fd socket) { life_line_ = std::move(socket); }
  /// The endpoint that sent the right token (server); whether it was acknowledged (client).
  [[nodiscard]] ucp_ep_h greeter() const { return greeter_; }
  [[nodiscard]] bool is_welcome() const { return is_welcome_; }
  /// For the error handler of an endpoint; also of those that did not become this wire's.
  void on_endpoint_error(ucp_ep_h endpoint, ucs_status_t status);
  /// Whether the error handler of an endpoint that is not this wire's has run.
  [[nodiscard]] bool is_broken(ucp_ep_h endpoint) const {
    return std::count(broken_.begin(), broken_.end(), endpoint) > 0;
  }
  /// It is closed; another may get its address.
  void forget(ucp_ep_h endpoint) { std::erase(broken_, endpoint); }

  // ---- bytes
  /// Sends all of it; returns when UCX needs `bytes` no more, but after an error. `while_blocked`
  /// is called without the lock.
  Status send(Lock& lock, std::span<const std::byte> bytes,
              const std::function<void()>& while_blocked);
  Status post(Kind kind, std::span<const std::byte> bytes = {});
  [[nodiscard]] Inbox& inbox() { return inbox_; }
  /// After the program has read from the inbox.
  void grant();

  // ---- staging memory
  /// The client's, and the way to the worker's; Err: they cannot be used.
  Status open_staging(Lock& lock, std::unique_ptr<RegisteredMemory> memory,
                      const StagingOffer& offer, Deadline deadline);
  /// The worker's.
  void hold_staging(std::unique_ptr<RegisteredMemory> memory) { held_staging_ = std::move(memory); }
  [[nodiscard]] std::span<std::byte> staging() const;
  [[nodiscard]] RemoteStaging* remote_staging() const {
    return has_staging_ ? port_.get() : nullptr;
  }

  // ---- events
  /// Runs UCX until it has nothing more to do; true if it did anything.
  bool progress();
  [[nodiscard]] Bell& receive_bell() { return receive_bell_; }
  [[nodiscard]] Bell& send_bell() { return send_bell_; }
  /// Until `is_due` or the deadline (false).
  bool wait_for(Lock& lock, Bell& bell, Deadline deadline, const std::function<bool()>& is_due);
  void wait_to_send(Lock& lock, const std::function<void()>& while_blocked,
                    const std::function<bool()>& is_due);
  /// The wait has lasted long: is the peer's process still there?
  void look_at_life_line();

  // ---- the end
  /// No more can be sent.
  [[nodiscard]] bool is_send_over() const;
  /// Nothing more will arrive; what is in the inbox has.
  [[nodiscard]] bool is_receive_over() const;
  [[nodiscard]] Error why_over(const std::string& doing) const;
  /// The connection is broken for good; the first reason stays.
  void break_off(Error why);
  [[nodiscard]] bool is_broken_off() const { return broken_off_.has_value(); }
  /// Tells the peer and waits for nothing: what UCX still holds then goes out when somebody lets it
  /// run, the destructor at the latest, and the end of the life line says the same.
  void close();

 private:
  struct Sending;
  Wire(Lane lane, const Token& token);
  Status open(ucp_context_h context);
  Status add_handler(Kind kind);
  template <Kind kKind>
  static ucs_status_t on_message(void* self, const void* header, std::size_t header_bytes,
                                 void* data, std::size_t bytes, const ucp_am_recv_param_t* param);
  static void on_sent(void* request, ucs_status_t status, void* sending);
  void take(Kind kind, const Header& header, std::span<const std::byte> data,
            const ucp_am_recv_param_t& param);
  void note_consumed(std::uint64_t consumed);
  void ring_all();
  void answer_end();
  void linger();
  bool spin(Lock& lock, Deadline deadline, const std::function<bool()>& is_due);
  void sleep(Lock& lock, Bell& bell, Deadline deadline);

  static constexpr std::chrono::milliseconds kSleepMax{50};

  const Lane lane_;
  const Token token_;
  const int owner_pid_;
  std::mutex mutex_;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  ucp_ep_h endpoint_ = nullptr, greeter_ = nullptr;
  std::vector<ucp_ep_h> broken_;
  Fd life_line_;
  Bell receive_bell_, send_bell_;
  shm::SpinPolicy spin_;

  Inbox inbox_{kWindowBytes};
  std::uint64_t granted_ = 0;  ///< what the peer knows of inbox_.consumed()
  std::uint64_t sent_ = 0, peer_consumed_ = 0;
  std::vector<std::unique_ptr<Sending>> idle_sendings_;
  std::size_t pending_ = 0;  ///< messages that UCX still holds

  std::unique_ptr<RegisteredMemory> held_staging_;
  std::unique_ptr<StagingPort> port_;
  bool has_staging_ = false;  ///< and port_ has been tried out

  bool is_welcome_ = false, is_closed_ = false, has_peer_ended_ = false, is_end_seen_ = false,
       is_end_answered_ = false;
  std::optional<Error> broken_off_;
  std::optional<Clock::time_point> gone_since_;  ///< the life line has ended
};

}  // namespace sluice::transport::ucx
