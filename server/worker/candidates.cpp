#include "server/worker/candidates.h"

#include "common/log.h"
#include "protocol/session_secret.h"
#include "transport/tls/tls_stream.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace sluice::server {
namespace {

namespace tls = transport::tls;

constexpr std::chrono::seconds kProofTime{2};
/// Of connections that have proved nothing; beyond it the oldest goes.
constexpr std::size_t kCandidatesMax = 16;
constexpr std::size_t kFrameBytesMax = 1024;

}  // namespace

SessionProof proof_of(const link::Start& start) {
  return {start.session_id, start.session_key};
}

Status Candidates::add(Fd socket, const link::AttachData& attach,
                       std::optional<std::vector<std::byte>> received) {
  const tls::SessionSecret secret{
      wire::secret_identity(proof_.session_id, attach.lane, attach.lane_count), proof_.key};
  SLUICE_TRY(auto engine, tls::Engine::session(tls::Role::kServer, socket.get(), secret));
  if (waiting_.size() == kCandidatesMax) waiting_.pop_front();
  waiting_.push_back({std::move(socket), std::move(engine), transport::Clock::now() + kProofTime,
                      attach, std::move(received)});
  return {};
}

Result<bool> Candidates::wait(int other_fd, transport::Deadline until) {
  polled_.assign(1, {other_fd, POLLIN, 0});
  for (const Candidate& one : waiting_) {
    polled_.push_back(
        {one.socket.get(), static_cast<short>(one.engine->has_unsent() ? POLLOUT : POLLIN), 0});
    until = std::min(until, one.deadline);
  }
  int timeout_ms = -1;
  if (until != transport::Deadline::max()) {
    const auto left = transport::left_until(until);
    timeout_ms = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
  }
  if (::poll(polled_.data(), polled_.size(), timeout_ms) < 0) {
    if (errno != EINTR) return fail(system_error("waiting for the data connection", errno));
    for (pollfd& one : polled_) one.revents = 0;
  }
  return polled_[0].revents != 0;
}

std::optional<Candidates::Proved> Candidates::advance() {
  std::deque<Candidate> rest;
  std::optional<Proved> found;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    Candidate& one = waiting_[i];
    const bool is_ready = polled_.size() > i + 1 && polled_[i + 1].revents != 0;
    const auto done = is_ready && !found ? advance(one) : Result<bool>(false);
    if (done && *done) {
      found.emplace(Proved{tls::make_tls_stream(std::move(one.socket), std::move(one.engine)),
                           one.attach, std::move(one.frame)});
      continue;
    }
    const bool is_late = transport::Clock::now() >= one.deadline;
    if (done && !is_late)
      rest.push_back(std::move(one));
    else
      note_refused(done ? "no handshake in time" : done.error().message);
  }
  waiting_ = std::move(rest);
  return found;
}

/// Strangers do not fill the log either.
void Candidates::note_refused(const std::string& why) {
  ++refused_;
  const auto now = transport::Clock::now();
  if (now < quiet_until_) return;
  SLUICE_LOG_WARN("session", "{} data connections that did not prove the key are closed: {}",
                  std::exchange(refused_, 0), why);
  quiet_until_ = now + std::chrono::seconds(1);
}

/// True: it has proved the key, and said what it is for.
Result<bool> Candidates::advance(Candidate& one) {
  if (!one.is_known) {
    SLUICE_TRY(one.is_known, one.engine->handshake());
    if (!one.is_known) return false;
  }
  return receive_frame(one);
}

/// Takes no byte behind the frame. True at once if there is none to come.
Result<bool> Candidates::receive_frame(Candidate& one) {
  if (!one.received) return true;
  std::vector<std::byte>& received = *one.received;
  std::size_t total = wire::kFramePrefixBytes;
  for (;;) {
    if (received.size() >= wire::kFramePrefixBytes) {
      SLUICE_TRY(total, wire::frame_bytes(received));
      if (total > kFrameBytesMax) return fail(ErrorCode::kProtocol, "its first frame is too long");
    }
    const std::size_t before = received.size();
    if (before == total) break;
    received.resize(total);
    const auto got = one.engine->receive_some(std::span(received).subspan(before));
    received.resize(before + (got ? *got : 0));
    if (!got) return fail(got.error());
    if (*got == 0) return false;
  }
  SLUICE_TRY(one.frame, wire::decode_frame(received));
  return true;
}

}  // namespace sluice::server
