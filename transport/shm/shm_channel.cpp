// Two processes on one host: a ring of shared memory in each direction and a futex to sleep on. The
// bootstrap socket stays open beside it, because memory cannot tell that a peer was killed: its end
// is looked for whenever a sleep has lasted kLifeCheck. That costs no thread in the program, no
// system call while there is traffic, and finds a death soon enough (a session's life line, watched
// by the broker, says the same).
#include "transport/shm/memory.h"
#include "transport/shm/ring.h"
#include "transport/shm/spin_policy.h"
#include "transport/shm/step_aside.h"
#include "transport/transport.h"

#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

namespace sluice::transport::shm {
namespace {

constexpr std::size_t kReserveBytesMax = 64 * 1024;
/// Bytes after which the peer may begin to read a long payload; also what it copies out at once.
constexpr std::size_t kPieceBytes = 64 * 1024;
constexpr std::chrono::milliseconds kLifeCheck{50};
constexpr int kSpinsPerLook = 16;

std::uint32_t current_cpu() {
  return static_cast<std::uint32_t>(::sched_getcpu());
}

unsigned usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 2;  // more than cpu_set_t can hold
  return static_cast<unsigned>(CPU_COUNT(&set));
}

template <class Ready>
bool spin_some(const Ready& is_ready) {
  for (int i = 0; i < kSpinsPerLook; ++i) {
    if (is_ready()) return true;
    __builtin_ia32_pause();
  }
  return false;
}

template <class Ready>
bool spin_until(const Ready& is_ready, Deadline deadline) {
  if (spin_some(is_ready)) return true;  // most answers come before the clock has been read
  const Deadline end = std::min(deadline, Clock::now() + SpinPolicy::kSpin);
  do {
    if (spin_some(is_ready)) return true;
  } while (Clock::now() < end);
  return false;
}

/// What both sides touch is atomic or constant; out_ and its like belong to the sending side, in_
/// and its like to the receiving side.
class ShmChannel final : public Channel {
 public:
  ShmChannel(Mapping memory, Fd socket, Side side)
      : memory_(std::move(memory)),
        socket_(std::move(socket)),
        own_(side == Side::kClient ? memory_.header().client : memory_.header().server),
        peer_(side == Side::kClient ? memory_.header().server : memory_.header().client),
        out_(side == Side::kClient ? memory_.header().up : memory_.header().down,
             side == Side::kClient ? memory_.up() : memory_.down()),
        in_(side == Side::kClient ? memory_.header().down : memory_.header().up,
            side == Side::kClient ? memory_.down() : memory_.up()),
        send_spin_(usable_cores()),
        receive_spin_(usable_cores()),
        may_step_aside_(side == Side::kServer && usable_cores() > 1),
        receive_(kPieceBytes) {}
  ~ShmChannel() override { ShmChannel::close(); }
  ShmChannel(const ShmChannel&) = delete;
  ShmChannel& operator=(const ShmChannel&) = delete;

  std::span<std::byte> reserve(std::size_t bytes) override {
    if (bytes > kReserveBytesMax || !send_status_ || !make_room(bytes)) return {};
    return {out_.at(), bytes};
  }

  void commit(std::size_t bytes, FlushHint hint) override {
    out_.advance(bytes);
    const bool is_due =
        hint == FlushHint::kNow || (hint == FlushHint::kSoon && out_.unpublished() >= kSoonBytes);
    if (is_due) static_cast<void>(flush());  // send_status_ keeps the failure
  }

  Status flush() override {
    if (send_status_ && is_over()) send_status_ = fail(closed("sending"));
    if (send_status_) {
      tell_cpu(current_cpu());
      out_.publish();
    }
    return send_status_;
  }

  [[nodiscard]] std::size_t unflushed_bytes() const override { return out_.unpublished(); }

  Status write_through(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const std::size_t piece = std::min(bytes.size(), kPieceBytes);
      if (!send_status_ || !make_room(piece)) return send_status_;
      std::memcpy(out_.at(), bytes.data(), piece);
      out_.advance(piece);
      SLUICE_CHECK(flush());
      bytes = bytes.subspan(piece);
    }
    return flush();
  }

  Result<std::size_t> poll(RecvSink& sink, std::size_t budget_bytes) override {
    std::size_t total = 0;
    while (total < budget_bytes) {
      const bool was_over = is_over();  // before the look: what was sent before the end counts
      SLUICE_TRY(const std::size_t available, in_.available());
      if (available == 0 && was_over && total == 0) return fail(closed("receiving"));
      if (available == 0) break;
      const std::size_t bytes = std::min({available, receive_.size(), budget_bytes - total});
      in_.take({receive_.data(), bytes});
      SLUICE_CHECK(sink.on_bytes({receive_.data(), bytes}));
      total += bytes;
    }
    if (total > 0) receive_spin_.note_traffic();
    return total;
  }

  Result<bool> wait(Deadline deadline) override {
    if (may_step_aside_ && !in_.has_moved()) leave_the_peers_core();
    const bool is_ready = wait_for(
        in_.bell(), receive_spin_, [this] { return in_.has_moved(); }, deadline);
    if (!is_ready) receive_spin_.note_quiet();
    return is_ready;
  }

  /// A futex is none.
  [[nodiscard]] int wait_fd() const override { return -1; }

  [[nodiscard]] std::span<std::byte> staging() override { return memory_.staging(); }

  [[nodiscard]] Caps caps() const override {
    return Caps{.reserve_bytes_max = kReserveBytesMax,
                .same_host = true,
                .encrypted = false,
                .name = "shm"};
  }

  void close() noexcept override {
    if (!memory_.is_here()) return;  // a forked child
    is_closed_.store(true);
    own_.is_closed.store(1, std::memory_order_seq_cst);
    for (Direction* direction : {&memory_.header().up, &memory_.header().down}) {
      ring_anyhow(direction->data);
      ring_anyhow(direction->room);
    }
    ::shutdown(socket_.get(), SHUT_RDWR);
  }

  void abandon_in_child() noexcept override { socket_.reset(); }

 private:
  static Error closed(const char* doing) {
    return {ErrorCode::kPeerClosed, std::string(doing) + ": the channel is closed"};
  }
  /// The peer reads this cache line all the time: it is written only when there is news.
  void tell_cpu(std::uint32_t cpu) {
    if (own_.cpu.load(std::memory_order_relaxed) != cpu)
      own_.cpu.store(cpu, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_over() const {
    return is_closed_.load(std::memory_order_relaxed) ||
           is_peer_gone_.load(std::memory_order_relaxed) ||
           peer_.is_closed.load(std::memory_order_seq_cst) != 0;
  }

  /// Nothing travels on the socket any more; its end, and anything else, is the end.
  void look_at_socket() {
    char byte = 0;
    const ssize_t got = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    is_peer_gone_.store(true);
  }

  /// True when `is_ready` or the channel is over.
  template <class Ready>
  bool wait_for(Bell& bell, SpinPolicy& spin, const Ready& is_ready, Deadline deadline) {
    const auto is_due = [&] { return is_ready() || is_over(); };
    if (is_due()) return true;
    const std::uint32_t cpu = current_cpu();
    tell_cpu(cpu);
    if (spin.may_spin(cpu, peer_.cpu.load(std::memory_order_relaxed))) {
      if (spin_until(is_due, deadline)) {
        spin.succeeded();
        if (&spin == &receive_spin_) step_aside_.note_success();
        return true;
      }
      spin.failed();
    }
    for (;;) {
      const auto now = Clock::now();
      if (now >= deadline) return false;
      sleep_on(bell, is_due, std::min(deadline, now + kLifeCheck));
      if (is_due()) return true;
      if (Clock::now() >= std::min(deadline, now + kLifeCheck)) look_at_socket();
      if (is_over()) return true;
    }
  }

  void leave_the_peers_core() {
    const std::uint32_t cpu = current_cpu();
    if (cpu == peer_.cpu.load(std::memory_order_relaxed) && step_aside_.is_due())
      StepAside::move_from(cpu);
  }

  bool make_room(std::size_t bytes) {
    for (;;) {
      const auto has_room = out_.has_room(bytes);
      if (!has_room) {
        send_status_ = fail(has_room.error());
        return false;
      }
      if (*has_room) return true;
      out_.publish();
      const bool has_moved = wait_for(
          out_.bell(), send_spin_, [this] { return out_.has_moved(); },
          Clock::now() + kBlockedInterval);
      if (!has_moved) while_blocked();
      if (is_over()) {
        send_status_ = fail(closed("sending"));
        return false;
      }
    }
  }

  Mapping memory_;
  Fd socket_;
  End& own_;
  End& peer_;
  std::atomic<bool> is_closed_{false}, is_peer_gone_{false};
  Sender out_;
  Status send_status_;  ///< the first failure stays
  Receiver in_;
  SpinPolicy send_spin_, receive_spin_;
  const bool may_step_aside_;
  StepAside step_aside_;
  std::vector<std::byte> receive_;
};

}  // namespace

std::unique_ptr<Channel> make_channel(Mapping memory, Fd socket, Side side) {
  return std::make_unique<ShmChannel>(std::move(memory), std::move(socket), side);
}

}  // namespace sluice::transport::shm
