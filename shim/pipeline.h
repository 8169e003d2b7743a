// The one ordered queue between this process and its worker (architecture D6). Every thread appends
// records to it under one lock, so what the program's threads agreed on among themselves stays true
// on the server. Records are collected and handed over when somebody waits, when enough are there,
// at once when the server has nothing of ours under way, or shortly after by the service thread.
// There is no receiving thread: whoever waits reads the channel, for itself and for the others; the
// service thread reads only when pushes are expected and nobody waits.
#pragma once

#include "protocol/opcodes.h"
#include "protocol/record_assembler.h"
#include "protocol/wire.h"
#include "shim/call.h"
#include "shim/futex.h"
#include "shim/life_line.h"
#include "shim/optimisations.h"
#include "transport/transport.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace sluice::shim {

/// What every call of a lost session returns.
inline constexpr CUresult kSessionLost = CUDA_ERROR_DEVICE_UNAVAILABLE;

/// The number of a record about to be posted; shared by the poster and the table of what awaits an
/// answer, either of which may be done with it first.
using SharedSeq = std::shared_ptr<std::atomic<std::uint64_t>>;

struct Outgoing {
  wire::Opcode opcode{};
  std::uint32_t context = 0;
  Bytes fixed;
  std::initializer_list<Bytes> blobs;
  /// Gets the record's number before anything can come back for it.
  std::atomic<std::uint64_t>* seq = nullptr;
  /// Bytes that travel beside it, in staging memory; for the statistics.
  std::size_t staged_bytes = 0;
  /// It may give the device something to do.
  bool is_work = true;
  /// Leaves at once, before any other thread can append: the worker will wait for what follows it
  /// elsewhere, and takes nothing else meanwhile.
  bool is_followed = false;
};

/// Takes the records that nobody asked for, on whichever thread reads. An error ends the session.
class PushHandler {
 public:
  virtual ~PushHandler() = default;
  virtual Status on_push(const wire::RecordHeader& header, Bytes body) = 0;
  /// Ends what pushes have only begun; true if there was anything. Called before a reply is
  /// believed, which may imply it, and when everything that has arrived is read.
  virtual Result<bool> finish_begun() { return false; }
  /// As expect_quiet() has asked for; on the service thread.
  virtual void on_quiet() noexcept {}
};

/// A condition that a push makes true.
struct Condition {
  const void* object = nullptr;
  bool (*test)(const void*) = nullptr;
  bool operator()() const { return test(object); }
};

struct Traffic {
  std::atomic<std::uint64_t> posted{0}, round_trips{0}, bytes_sent{0}, bytes_received{0};
  /// Of both, what went beside the channel, in staging memory.
  std::atomic<std::uint64_t> bytes_staged{0};
};

/// Thread-safe. Lock order: send_mutex_ before replies_mutex_; receive_mutex_ before replies_mutex_
/// and sleepers_mutex_.
class Pipeline final : private wire::RecordHandler {
 public:
  static constexpr std::size_t kFlushBytes = 8 * 1024;
  static constexpr std::uint32_t kFlushRecords = 64;
  static constexpr std::chrono::microseconds kFlushDelay{50};
  static constexpr std::chrono::milliseconds kQuietTime{100};
  /// Every wait looks again at least this often whether the session still lives.
  static constexpr std::chrono::milliseconds kRecheck{50};

  /// `life_line` may be empty (tests). Strict: what is posted is waited for (SLUICE_STRICT).
  /// Nothing is sent yet.
  Pipeline(std::unique_ptr<transport::Channel> channel,
           std::unique_ptr<transport::ByteStream> life_line, bool is_strict, PushHandler& pushes,
           const Optimisations& optimisations = {}, LifeLine::Heartbeat heartbeat = {},
           std::optional<Resumable> resumable = {});
  ~Pipeline() override;

  /// Appends; kSessionLost when the session is over.
  CUresult post(const Outgoing& record) noexcept;
  /// Appends, flushes, waits. The server's result.
  CUresult call(const Outgoing& record, const detail::ReplyShape& shape,
                std::initializer_list<OutBytes> out) noexcept;
  /// Flushes and waits until a push has made `done` true: CUDA_SUCCESS, or kSessionLost.
  CUresult wait(const Condition& done) noexcept;
  template <class Done>
  CUresult wait_until(const Done& done) noexcept {
    return wait(
        Condition{&done, [](const void* object) { return (*static_cast<const Done*>(object))(); }});
  }
  /// Flushes and takes what has arrived, without waiting.
  void poll() noexcept;
  void flush() noexcept;

  /// A push will come for something that nobody may wait for / has come.
  void expect() noexcept;
  void fulfilled() noexcept { expected_.fetch_sub(1, std::memory_order_acq_rel); }

  /// on_quiet() shall be called once nothing has been posted for kQuietTime, or at once.
  enum class Quiet { kNever, kLater, kNow };
  void expect_quiet(Quiet when = Quiet::kLater) noexcept;

  [[nodiscard]] bool is_lost() const noexcept { return is_lost_.load(std::memory_order_acquire); }
  /// Ends the session for good: one log line, everyone who waits returns.
  void lose(const Error& why) noexcept;
  /// The same, of a connection to the worker that broke: the server may know why.
  void lose_channel(const Error& why) noexcept;
  /// Says goodbye if that is possible within `limit`; pending work is abandoned. Later calls find
  /// the session lost.
  void finish(std::chrono::milliseconds limit) noexcept;
  /// Says goodbye and ends the service thread: nothing is called back any more.
  void end() noexcept;
  /// In a forked child: gives up the descriptors without a word to the peer.
  void abandon_in_child() noexcept;

  [[nodiscard]] const Optimisations& optimisations() const { return optimisations_; }
  [[nodiscard]] bool is_strict() const { return is_strict_; }
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }
  /// Memory that the worker sees as well, if the transport has some.
  [[nodiscard]] std::span<std::byte> staging() const { return channel_->staging(); }
  [[nodiscard]] transport::RemoteStaging* remote_staging() const {
    return channel_->remote_staging();
  }
  /// Connections beside the channel that the worker has, too, if the transport has some.
  [[nodiscard]] std::span<const std::unique_ptr<transport::ByteStream>> lanes() const {
    return channel_->lanes();
  }
  /// False: every post waits for its answer.
  [[nodiscard]] bool posts() const { return !is_strict_; }
  /// How often the program has waited for something, also if it was there already.
  [[nodiscard]] std::uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }
  /// Looks at the life line; Err: the session is over.
  Status still_lives() noexcept;
  /// The shortest round trip of the first calls: an upper bound of the way's, soon a close one.
  [[nodiscard]] std::chrono::nanoseconds round_trip_min() const {
    return std::chrono::nanoseconds(round_trip_min_ns_.load(std::memory_order_relaxed));
  }
  /// Bytes came in it.
  void count_received(std::size_t bytes) noexcept {
    traffic_.bytes_received.fetch_add(bytes, std::memory_order_relaxed);
    traffic_.bytes_staged.fetch_add(bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] const char* transport_name() const { return transport_name_; }
  /// The socket that the records travel through; -1 if they do not travel through one.
  [[nodiscard]] int socket() const { return channel_->wait_fd(); }
  [[nodiscard]] bool is_resumable() const { return life_line_.is_resumable(); }
  /// Records appended so far.
  [[nodiscard]] std::uint64_t last_seq() const { return last_seq_.load(std::memory_order_relaxed); }
  /// Number of the last record that may have given the device something to do.
  [[nodiscard]] std::uint64_t last_work_seq() const {
    return last_work_seq_.load(std::memory_order_relaxed);
  }

 private:
  /// A call that waits for its reply; on the caller's stack.
  struct Reply {
    const detail::ReplyShape& shape;
    std::initializer_list<OutBytes> out;
    std::atomic<bool> is_done{false};
    CUresult result = CUDA_SUCCESS;
  };
  /// A thread asleep because another one reads.
  struct Sleeper {
    const Reply* reply = nullptr;  ///< null: any push may concern it
    WakeWord word;
  };

  CUresult append(const Outgoing& record, Reply* reply) noexcept;
  bool write(const wire::RecordHeader& header, const Outgoing& record) noexcept;
  bool write_blob_through(Bytes blob) noexcept;
  void flush_locked() noexcept;
  void lead(const Condition& done) noexcept;
  void follow(const Condition& done, const Reply* reply) noexcept;
  void wait_for(const Condition& done, const Reply* reply) noexcept;
  bool read_some() noexcept;
  Status finish_begun();
  void wake_for_pushes();
  void hand_over() noexcept;
  void check_life_line() noexcept;
  void note_round_trip(Clock::time_point since) noexcept;

  Status on_record(const wire::RecordHeader& header, Bytes body) override;
  Status on_reply(const wire::RecordHeader& header, Bytes body);
  static Status fill(Reply& reply, const wire::RecordHeader& header, Bytes body);

  void nudge_service() noexcept;
  void start_service() noexcept;
  void serve() noexcept;
  void rest(std::uint32_t seen, int quiet_rounds) noexcept;
  bool rest_until_quiet(std::uint32_t seen) noexcept;
  void be_quiet() noexcept;
  bool flush_overdue() noexcept;
  void watch_while_blocked() noexcept;
  [[nodiscard]] bool expects_pushes() const noexcept;
  bool read_expected() noexcept;
  void send_goodbye() noexcept;

  std::unique_ptr<transport::Channel> channel_;
  LifeLine life_line_;
  bool is_strict_;
  Optimisations optimisations_;
  PushHandler& pushes_;
  const char* transport_name_;
  std::size_t inline_bytes_max_;

  std::mutex send_mutex_;
  std::atomic<std::uint64_t> last_seq_{0}, last_work_seq_{0};
  std::atomic<std::uint64_t> acknowledged_seq_{
      0};  ///< the newest request that a reply or push answers
  std::atomic<std::uint32_t> unflushed_records_{0};
  std::atomic<std::int64_t> oldest_ns_{0};  ///< when the oldest unflushed record was appended
  std::atomic<bool> is_flushing_{false};

  std::mutex receive_mutex_;
  wire::RecordAssembler<transport::RecvSink> assembler_;
  std::mutex replies_mutex_;
  std::unordered_map<std::uint64_t, Reply*> replies_;
  std::mutex sleepers_mutex_;
  std::vector<Sleeper*> sleepers_;

  std::atomic<bool> is_lost_{false};
  std::atomic<int> expected_{0};
  std::atomic<Quiet> expects_quiet_{Quiet::kNever};
  Traffic traffic_;
  std::atomic<std::uint64_t> waits_{0};
  std::atomic<std::int64_t> round_trip_min_ns_{INT64_MAX};

  std::atomic<bool> has_service_{false};
  std::atomic<bool> service_sleeps_{false};
  std::atomic<bool> stops_{false};
  std::atomic<bool> says_goodbye_{false};
  WakeWord service_word_;
  WakeWord goodbye_word_;
  pthread_t service_{};
};

}  // namespace sluice::shim
