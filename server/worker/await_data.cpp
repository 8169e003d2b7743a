#include "server/worker/await_data.h"

#include "common/format.h"
#include "common/log.h"
#include "server/worker/candidates.h"
#include "server/worker/data_channel.h"

#include <array>
#include <optional>
#include <vector>

namespace sluice::server {
namespace {

using transport::Deadline;

/// A data connection that is the client's.
struct Connection {
  link::AttachData attach;
  Fd socket;                                      ///< plain
  std::unique_ptr<transport::ByteStream> stream;  ///< encrypted
};

/// The session's connections: that for records and its lanes, which come in any order.
class Gathering {
 public:
  explicit Gathering(std::chrono::milliseconds rest_time) : rest_time_(rest_time) {}

  /// Err(kProtocol): the client has opened what it did not announce.
  Status add(Connection one) {
    const std::size_t lane = one.attach.lane, count = one.attach.lane_count;
    if (came_ == 0) {
      if (count > wire::kLaneCountMax)
        return fail(ErrorCode::kProtocol, format("the client announces {} lanes", count));
      connections_.resize(count + 1);
      deadline_ = transport::Clock::now() + rest_time_;
    }
    if (count + 1 != connections_.size() || lane > count || is_there_[lane])
      return fail(ErrorCode::kProtocol, format("lane {} of {} is one that cannot be", lane, count));
    is_there_[lane] = true;
    connections_[lane] = std::move(one);
    ++came_;
    return {};
  }
  [[nodiscard]] bool is_complete() const { return came_ > 0 && came_ == connections_.size(); }
  [[nodiscard]] Deadline deadline() const { return deadline_; }
  /// Once complete: how the connection for records was attached.
  [[nodiscard]] const link::AttachData& attach() const { return connections_.front().attach; }

  /// Once complete.
  Result<std::unique_ptr<transport::Channel>> open(const link::Start& start,
                                                   Resumption& resumption) {
    Connection first = std::move(connections_.front());
    transport::Lanes lanes;
    for (std::size_t i = 1; i < connections_.size(); ++i)
      lanes.push_back(stream_of(std::move(connections_[i])));
    const link::AttachData& attach = first.attach;
    if (start.uses_io_uring && (attach.is_encrypted || attach.is_resumable))
      SLUICE_LOG_INFO("session", "io_uring is not used: the session's connections are {}",
                      attach.is_encrypted ? "encrypted" : "resumable");
    if (attach.is_resumable)
      return resumption.open(stream_of(std::move(first)), std::move(lanes), attach.survives_reset);
    if (attach.is_encrypted)
      return transport::make_stream_channel(stream_of(std::move(first)), std::move(lanes));
    return open_data_channel(std::move(first.socket),
                             {.offers_shared_memory = attach.offers_shared_memory,
                              .wants_ucx = attach.wants_ucx,
                              .uses_io_uring = start.uses_io_uring},
                             std::move(lanes));
  }

 private:
  static std::unique_ptr<transport::ByteStream> stream_of(Connection connection) {
    if (connection.stream != nullptr) return std::move(connection.stream);
    return transport::make_socket_stream(std::move(connection.socket));
  }

  std::chrono::milliseconds rest_time_;
  std::vector<Connection> connections_;
  std::array<bool, wire::kLaneCountMax + 1> is_there_{};
  std::size_t came_ = 0;
  Deadline deadline_ = Deadline::max();
};

/// What the broker says next: a plain connection, or nothing, of one that has yet to prove itself.
Result<std::optional<Connection>> take_attached(int link_fd, Candidates& candidates) {
  SLUICE_TRY(link::Received received, link::receive_message(link_fd));
  const auto* attach = std::get_if<link::AttachData>(&received.message);
  if (attach == nullptr || !received.passed.valid())
    return fail(ErrorCode::kProtocol, "expected the data connection");
  if (!attach->is_encrypted) return Connection{*attach, std::move(received.passed), nullptr};
  SLUICE_CHECK(candidates.add(std::move(received.passed), *attach));
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<transport::Channel>> await_data_channel(
    int link_fd, const link::Start& start, Resumption& resumption,
    std::chrono::milliseconds rest_time) {
  Candidates candidates(proof_of(start));
  Gathering gathering(rest_time);
  while (!gathering.is_complete()) {
    SLUICE_TRY(const bool link_speaks, candidates.wait(link_fd, gathering.deadline()));
    if (auto proved = candidates.advance())
      SLUICE_CHECK(gathering.add({proved->attach, {}, std::move(proved->stream)}));
    if (link_speaks && !gathering.is_complete()) {
      SLUICE_TRY(auto plain, take_attached(link_fd, candidates));
      if (plain) SLUICE_CHECK(gathering.add(std::move(*plain)));
    }
    if (!gathering.is_complete() && transport::Clock::now() >= gathering.deadline())
      return fail(ErrorCode::kTimeout, "the client announced lanes and did not open them");
  }
  if (gathering.attach().is_encrypted)
    SLUICE_CHECK(link::send_message(link_fd, link::DataReady{gathering.attach().is_resumable}));
  return gathering.open(start, resumption);
}

}  // namespace sluice::server
