// Events and stream markers: which of them have completed is pushed by the worker, so that queries
// need no round trip.
#pragma once

#include "shim/objects.h"
#include "shim/pipeline.h"

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace sluice::shim {

/// Thread-safe.
class Completions {
 public:
  explicit Completions(Pipeline& pipeline) : pipeline_(pipeline) {}

  void add_event(Event& event);
  /// Its waiters return; nothing is reported to it any more.
  void remove_event(Event& event);
  /// Numbers and posts a record of the event behind what the stream has now.
  CUresult record(Event& event, const Stream& stream, unsigned flags, std::uint32_t context);
  /// CUDA_ERROR_NOT_READY while the latest record is pending; takes what has arrived, never waits.
  CUresult query(Event& event);
  CUresult synchronize(Event& event);

  /// Whether everything that was given to the stream has completed: as query(), by a marker. If the
  /// program has waited for anything since the last look, the server is asked.
  CUresult query(Stream& stream, std::uint32_t context);
  /// How often the program has learned that something is done, by a wait or by a query.
  [[nodiscard]] std::uint64_t waits() const;
  /// A synchronisation that saw `uses` has returned.
  void completed(Stream& stream, std::uint64_t uses);
  void remove_stream(Stream& stream);

  Status on_event_done(const wire::RecordHeader& header, Bytes body);
  Status on_marker_done(const wire::RecordHeader& header, Bytes body);
  /// The record with that number failed: whoever waits for its completion gets the error.
  void on_record_failed(std::uint64_t seq, CUresult result);
  void on_marker_failed(std::uint64_t seq, CUresult result);

 private:
  CUresult ask_about(Stream& stream, std::uint64_t uses, std::uint32_t context);
  std::uint64_t new_marker(Stream& stream);
  CUresult tell(Stream& stream);
  void finish_marker(std::uint64_t marker, Stream& stream, CUresult result);
  void finish_record(Event& event, std::uint64_t version, CUresult result);
  /// Without local queries: everything that has happened so far has been pushed.
  void ask_server() noexcept;
  CUresult post_marker(std::uint64_t stream, std::uint64_t marker, std::uint32_t context);

  Pipeline& pipeline_;
  std::mutex mutex_;  ///< taken after an object's own
  std::unordered_map<std::uint64_t, Event*> events_;
  struct Marker {
    Stream* stream = nullptr;
    SharedSeq seq = std::make_shared<std::atomic<std::uint64_t>>(0);
  };
  std::unordered_map<std::uint64_t, Marker> markers_;
  std::uint64_t last_marker_ = 0;
  std::atomic<std::uint64_t> seen_done_{0};  ///< queries that said so without asking
};

/// Calls that named the stream so far; of the legacy stream: it and all blocking streams of its
/// context.
std::uint64_t uses_of(const Stream& stream) noexcept;

}  // namespace sluice::shim
