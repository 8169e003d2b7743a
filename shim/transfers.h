// Copies that are under way: where device-to-host data goes when it arrives, and how many bytes may
// be on their way to the server before the caller waits (the window, so that a program cannot fill
// the worker's memory).
#pragma once

#include "protocol/copy.h"
#include "protocol/session.h"
#include "shim/bulk_lanes.h"
#include "shim/errors.h"
#include "shim/pipeline.h"
#include "shim/staging_slots.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace sluice::shim {

/// Thread-safe.
class Transfers {
 public:
  Transfers(Pipeline& pipeline, Deferred& deferred)
      : pipeline_(pipeline),
        deferred_(deferred),
        slots_(pipeline.staging()),
        remote_(pipeline.remote_staging()),
        lanes_(pipeline) {}

  struct Read {
    CUdeviceptr source = 0;
    std::byte* destination = nullptr;
    std::size_t bytes = 0;
    std::uint64_t stream = 0;
    std::uint32_t context = 0;
  };
  /// Device to host. With `waits` the data is there on return; without, it arrives before any
  /// completion that implies it, and the destination must stay valid until then (free and
  /// unregister call settle()).
  CUresult read(const Read& read, bool waits);

  struct Write {
    CUdeviceptr destination = 0;
    const std::byte* source = nullptr;
    std::size_t bytes = 0;
    std::uint64_t stream = 0;
    std::uint32_t context = 0;
    bool is_ordered = true;  ///< false: only its stream may rely on it (asynchronous, pinned)
  };
  /// Host to device; the source has been read on return.
  CUresult write(const Write& write);

  /// Data that a graph will copy to [destination, destination + bytes): the number under which it
  /// will come.
  std::uint64_t announce(std::byte* destination, std::size_t bytes);
  void fail_announced(std::uint64_t id, CUresult result);

  /// Waits until no data is on its way into [address, address + bytes).
  CUresult settle(const void* address, std::size_t bytes);

  Status on_host_data(const wire::RecordHeader& header, Bytes body);
  Status on_host_data_staged(const wire::RecordHeader& header, Bytes body);
  /// Host data that is being fetched from the worker's memory is there afterwards; true if any was.
  Result<bool> finish_fetches();
  Status on_credit(Bytes body);
  Status on_staging_free(Bytes body);
  /// The copy_d2h with that number failed without any host data. False if it is none of ours (any
  /// more).
  bool on_read_failed(std::uint64_t seq, CUresult result);
  void on_write_failed(std::uint64_t seq) { slots_.give_back_of(seq); }

  /// Bytes under way to the device that the worker has not taken over yet.
  [[nodiscard]] std::size_t h2d_under_way() const { return h2d_bytes_.load(); }

 private:
  struct Transfer {
    std::byte* destination = nullptr;
    std::size_t bytes = 0;
    std::size_t requested = 0;  ///< of which the records are posted
    std::size_t received = 0;
    std::vector<SharedSeq> piece_seqs;  ///< of its copy_d2h records
    bool is_waited_for = false;
    bool is_windowed = true;  ///< counts in the window for its bytes
    bool is_done = false;
    CUresult result = CUDA_SUCCESS;
  };
  /// A piece of a write, in a slot.
  struct Piece {
    std::size_t offset = 0, bytes = 0;
    std::uint64_t slot = 0;
    SharedSeq seq;
    transport::RemoteStaging::Ticket put = 0;
  };
  /// A piece of a read, on its way from the worker's memory to the slot.
  struct Fetch {
    wire::host_data_staged push{};
    transport::RemoteStaging::Ticket get = 0;
  };
  /// Bytes that may be under way in one direction; more the longer the way is.
  [[nodiscard]] std::size_t window_bytes() const;
  [[nodiscard]] bool takes_lane(std::size_t bytes) const;
  /// Waits for room in a window and takes it.
  CUresult acquire(std::atomic<std::size_t>& under_way, std::size_t bytes);
  CUresult request_pieces(std::uint64_t id, const Read& read);
  /// Whether a piece is worth a slot.
  [[nodiscard]] bool is_staged(std::size_t bytes) const;
  /// A slot for a piece of a copy, if one is free and the piece is worth it.
  std::optional<std::uint64_t> take_slot(std::size_t bytes, const SharedSeq& seq);
  /// The same, after some patience; none if the piece shall travel in the pipeline.
  std::optional<std::uint64_t> await_slot(std::size_t bytes, const SharedSeq& seq);
  CUresult write_piece(const Write& write, std::size_t offset, std::size_t bytes,
                       std::deque<Piece>& puts);
  CUresult write_staged(const Write& write, Piece piece, std::deque<Piece>& puts);
  /// Posts the records of pieces that have arrived in the worker's memory, the oldest first, until
  /// at most so many are left on their way.
  CUresult post_put(const Write& write, std::deque<Piece>& puts, std::size_t left_max);
  CUresult post_staged(const Write& write, const Piece& piece);
  CUresult write_by_lane(const Write& write, std::size_t offset, std::size_t bytes,
                         const SharedSeq& seq);
  CUresult write_inline(const Write& write, std::size_t offset, std::size_t bytes);
  CUresult post_read(const Read& read, std::uint64_t id, std::size_t offset, std::size_t bytes,
                     std::optional<std::uint64_t> slot, const SharedSeq& seq);
  Status begin_fetch(const wire::host_data_staged& push);
  Status finish_fetch();
  Status take_from_lane(const wire::host_data_staged& push, std::uint64_t seq, CUresult result);
  [[nodiscard]] bool may_come(const wire::host_data_staged& push) const;
  Status take_staged(const wire::host_data_staged& push, CUresult result);
  Status take_host_data(std::uint64_t id, std::uint64_t offset, Bytes data, CUresult result);
  [[nodiscard]] bool is_done(std::uint64_t id) const;
  [[nodiscard]] bool touches(const std::byte* address, std::size_t bytes) const;
  void finish(std::uint64_t id, Transfer& transfer, CUresult result);

  /// From here on the service thread looks for credits even if nobody waits.
  static constexpr std::size_t kCreditWatchBytes = wire::kCopyWindowBytes / 4;

  Pipeline& pipeline_;
  Deferred& deferred_;
  StagingSlots slots_;
  transport::RemoteStaging* const remote_;     ///< null: the slots are the worker's memory, too
  std::deque<Fetch> fetches_;                  ///< the reading thread's
  BulkLanes lanes_;                            ///< exist only where the slots do not
  std::atomic<bool> is_staging_stuck_{false};  ///< nothing has come back for long
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Transfer> transfers_;
  std::uint64_t last_id_ = 0;
  std::atomic<int> unwaited_{0};  ///< transfers into pinned memory that nobody waits for
  std::atomic<std::size_t> h2d_bytes_{0};
  std::atomic<std::size_t> d2h_bytes_{0};
};

}  // namespace sluice::shim
