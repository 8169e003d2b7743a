#include "server/worker/await_data.h"

#include "common/log.h"
#include "server/worker/data_channel.h"
#include "transport/tls/tls_stream.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <string>
#include <vector>

namespace sluice::server {
namespace {

namespace tls = transport::tls;
using transport::Deadline;

constexpr std::chrono::seconds kProofTime{2};
/// Of connections that have proved nothing; beyond it the oldest goes.
constexpr std::size_t kCandidatesMax = 16;

struct Candidate {
  Fd socket;
  std::unique_ptr<tls::Engine> engine;
  Deadline deadline;
};

class Candidates {
 public:
  explicit Candidates(const link::Start& start)
      : secret_{std::to_string(start.session_id), start.session_key} {}

  Status add(Fd socket) {
    SLUICE_TRY(auto engine, tls::Engine::session(tls::Role::kServer, socket.get(), secret_));
    if (waiting_.size() == kCandidatesMax) waiting_.pop_front();
    waiting_.push_back(
        {std::move(socket), std::move(engine), transport::Clock::now() + kProofTime});
    return {};
  }

  /// Sleeps until one of them, or the link, has something to say; true: the link has.
  Result<bool> wait(int link_fd) {
    polled_.assign(1, {link_fd, POLLIN, 0});
    int timeout_ms = -1;
    for (const Candidate& one : waiting_) {
      polled_.push_back(
          {one.socket.get(), static_cast<short>(one.engine->has_unsent() ? POLLOUT : POLLIN), 0});
      const auto left = one.deadline - transport::Clock::now();
      const auto left_ms =
          std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count());
      timeout_ms = timeout_ms < 0 ? static_cast<int>(left_ms)
                                  : std::min(timeout_ms, static_cast<int>(left_ms));
    }
    if (::poll(polled_.data(), polled_.size(), timeout_ms) < 0 && errno != EINTR)
      return fail(system_error("waiting for the data connection", errno));
    return polled_[0].revents != 0;
  }

  /// The stream of the one that has proved to be the client's, if there is one by now.
  std::unique_ptr<transport::ByteStream> advance() {
    std::deque<Candidate> rest;
    std::unique_ptr<transport::ByteStream> found;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      Candidate& one = waiting_[i];
      const bool is_ready = polled_.size() > i + 1 && polled_[i + 1].revents != 0;
      const auto done = is_ready ? one.engine->handshake() : Result<bool>(false);
      if (done && *done) {
        found = tls::make_tls_stream(std::move(one.socket), std::move(one.engine));
        break;
      }
      const bool is_late = transport::Clock::now() >= one.deadline;
      if (done && !is_late)
        rest.push_back(std::move(one));
      else
        SLUICE_LOG_WARN("session", "a data connection that did not prove the key is closed: {}",
                        done ? "no handshake in time" : done.error().message);
    }
    waiting_ = std::move(rest);
    return found;
  }

 private:
  tls::SessionSecret secret_;
  std::deque<Candidate> waiting_;
  std::vector<pollfd> polled_;  ///< the link, then the waiting ones in order
};

}  // namespace

Result<std::unique_ptr<transport::Channel>> await_data_channel(int link_fd,
                                                               const link::Start& start,
                                                               Resumption& resumption) {
  Candidates candidates(start);
  for (;;) {
    SLUICE_TRY(const bool link_speaks, candidates.wait(link_fd));
    if (auto stream = candidates.advance(); stream != nullptr) {
      SLUICE_CHECK(link::send_message(link_fd, link::DataReady{}));
      return transport::make_stream_channel(std::move(stream));
    }
    if (!link_speaks) continue;
    SLUICE_TRY(link::Received received, link::receive_message(link_fd));
    const auto* attach = std::get_if<link::AttachData>(&received.message);
    if (attach == nullptr || !received.passed.valid())
      return fail(ErrorCode::kProtocol, "expected the data connection");
    if (attach->is_resumable)
      return resumption.open(std::move(received.passed), attach->survives_reset);
    if (!attach->is_encrypted)
      return open_data_channel(std::move(received.passed), attach->offers_shared_memory,
                               attach->wants_ucx);
    SLUICE_CHECK(candidates.add(std::move(received.passed)));
  }
}

}  // namespace sluice::server
