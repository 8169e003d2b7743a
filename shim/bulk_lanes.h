// The client's end of the bulk lanes (transport/stream/stream_io.h): which copy takes which lane,
// and the moving of its bytes. A record and its data go out under the lane's lock, so that the
// worker finds the data in the order of the records.
#pragma once

#include "protocol/wire.h"
#include "shim/pipeline.h"
#include "transport/stream/stream_io.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace sluice::shim {

/// Thread-safe.
class BulkLanes {
 public:
  /// Data of one record.
  static constexpr std::size_t kPieceBytes = wire::kPayloadBytesMax;

  explicit BulkLanes(Pipeline& pipeline);

  [[nodiscard]] bool exist() const { return !lanes_.empty(); }
  /// The lane for the next piece of a copy.
  std::uint64_t next() { return next_.fetch_add(1, std::memory_order_relaxed) % lanes_.size(); }

  /// Posts the record that names the lane, by `post`, which leaves its number in `seq` and marks it
  /// as followed; then sends the data.
  CUresult send(std::uint64_t lane, Bytes data, const SharedSeq& seq,
                const std::function<CUresult()>& post);
  /// Reader of the channel: what the push for record `seq` announced, in pieces. An error ends the
  /// session.
  Status receive(std::uint64_t lane, std::uint64_t seq, std::uint64_t bytes,
                 const std::function<Status(Bytes)>& take);

 private:
  struct Lane {
    explicit Lane(transport::ByteStream& of) : stream(of), writer(of) {}
    transport::ByteStream& stream;
    std::mutex mutex;  ///< of the sending side; taken before the pipeline's
    transport::LaneWriter writer;
  };
  Status send_data(Lane& lane, Bytes data, std::uint64_t seq);

  Pipeline& pipeline_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<std::uint64_t> next_{0};
  std::vector<std::byte> received_;  ///< the reader's
};

}  // namespace sluice::shim
