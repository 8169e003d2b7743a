#include "shim/bulk_lanes.h"

#include <algorithm>

namespace sluice::shim {
namespace {
constexpr std::size_t kReceiveBytes = 64 * 1024;  // stays hot in the cache
}  // namespace

BulkLanes::BulkLanes(Pipeline& pipeline) : pipeline_(pipeline) {
  // Where every post is answered before it returns, the data could not follow its record.
  if (!pipeline.posts()) return;
  for (const auto& stream : pipeline.lanes()) lanes_.push_back(std::make_unique<Lane>(*stream));
  if (exist()) received_.resize(kReceiveBytes);
}

CUresult BulkLanes::send(std::uint64_t number, Bytes data, const SharedSeq& seq,
                         const std::function<CUresult()>& post) {
  Lane& lane = *lanes_[number];
  const std::lock_guard lock(lane.mutex);
  // While the worker is slow, somebody must read what it sends and watch the life line.
  pipeline_.expect();
  CUresult result = post();
  if (result == CUDA_SUCCESS) {
    const Status sent =
        lane.writer.send(seq->load(), data, [this] { return pipeline_.still_lives(); });
    if (!sent) {
      pipeline_.lose_channel(sent.error());
      result = kSessionLost;
    }
  }
  pipeline_.fulfilled();
  return result;
}

Status BulkLanes::receive(std::uint64_t number, std::uint64_t seq, std::uint64_t bytes,
                          const std::function<Status(Bytes)>& take) {
  if (number >= lanes_.size() || bytes > kPieceBytes)
    return fail(ErrorCode::kProtocol, "host data on a lane that is none");
  transport::ByteStream& stream = lanes_[number]->stream;
  const auto still_lives = [this] { return pipeline_.still_lives(); };
  SLUICE_CHECK(transport::expect_piece(stream, seq, bytes, still_lives));
  while (bytes > 0) {
    const std::size_t piece = std::min<std::uint64_t>(bytes, received_.size());
    const std::span<std::byte> into = std::span(received_).first(piece);
    SLUICE_CHECK(transport::receive_all(stream, into, still_lives));
    pipeline_.count_received(piece);
    SLUICE_CHECK(take(into));
    bytes -= piece;
  }
  return {};
}

}  // namespace sluice::shim
