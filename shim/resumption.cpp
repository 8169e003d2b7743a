#include "shim/resumption.h"

#include "common/format.h"
#include "common/log.h"
#include "common/quiet_thread.h"
#include "protocol/frame_io.h"
#include "protocol/stream_frames.h"
#include "shim/prove_key.h"
#include "shim/tls_library.h"
#include "transport/resume/handover.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string_view>
#include <utility>

namespace sluice::shim {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds kConnectTimeout = 1s;
constexpr milliseconds kAnswerTimeout = 2s;
/// However late the silence is noticed, there is time to ask once.
constexpr milliseconds kTryAtLeast = 2s;
constexpr int kLookIntervalMs = 50;
constexpr milliseconds kPauseMin = 50ms, kPauseMax = 1s;

bool is_final(const Error& error) {
  return error.code == ErrorCode::kPermission || error.code == ErrorCode::kProtocol;
}

/// A failure that says nothing of the next attempt.
tl::unexpected<Error> of_this_attempt(Error error) {
  if (is_final(error)) error.code = ErrorCode::kSystem;
  return fail(std::move(error));
}

Result<transport::Address> address_of_peer(int socket) {
  sockaddr_storage peer{};
  socklen_t bytes = sizeof peer;
  auto* const address = reinterpret_cast<sockaddr*>(&peer);
  if (::getpeername(socket, address, &bytes) != 0)
    return fail(system_error("asking for the server's address", errno));
  char host[NI_MAXHOST] = {};
  if (::getnameinfo(address, bytes, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    return fail(ErrorCode::kSystem, "the server's address has no text");
  const std::uint16_t port = peer.ss_family == AF_INET6
                                 ? reinterpret_cast<const sockaddr_in6&>(peer).sin6_port
                                 : reinterpret_cast<const sockaddr_in&>(peer).sin_port;
  return transport::Address{
      .kind = transport::Address::Kind::kTcp, .path = {}, .host = host, .port = ntohs(port)};
}

}  // namespace

Result<ResumeAfter> parse_resume(const char* text, const wire::Welcome& welcome,
                                 bool is_encrypted) {
  const std::string_view word = text != nullptr ? text : "";
  const std::uint64_t feature = is_encrypted ? wire::kFeatureResumeEncrypted : wire::kFeatureResume;
  const bool is_possible = (welcome.feature_bits & feature) != 0 && welcome.grace_ms != 0;
  if (word == "off") return ResumeAfter::kNothing;
  if (!word.empty() && word != "silence" && word != "reset")
    return fail(ErrorCode::kInvalidArgument,
                format("SLUICE_RESUME: \"{}\" is not one of off, silence, reset", word));
  if (!is_possible) return ResumeAfter::kNothing;
  const bool after_reset = word.empty() ? welcome.resumes_on_reset != 0 : word == "reset";
  return after_reset ? ResumeAfter::kReset : ResumeAfter::kSilence;
}

Encryption encryption_of(transport::tls::ClientChoice choice, std::string host) {
  char folder[PATH_MAX];
  if (::getcwd(folder, sizeof folder) != nullptr)
    for (std::string* file : {&choice.ca_file, &choice.certificate_file, &choice.key_file})
      if (!file->empty() && file->front() != '/') *file = std::string(folder) + "/" + *file;
  return {std::move(choice), std::move(host)};
}

Result<Resumable> resumable_of(int life_line, const wire::Welcome& welcome, ResumeAfter after) {
  Resumable out;
  SLUICE_TRY(out.server, address_of_peer(life_line));
  out.identity.session_id = welcome.session_id;
  out.identity.session_key = welcome.session_key;
  out.identity.server_instance = welcome.server_instance;
  out.grace = milliseconds(welcome.grace_ms);
  out.survives_reset = after == ResumeAfter::kReset;
  return out;
}

Resumption::Resumption(Resumable session, TakeLifeLine take_life_line)
    : session_(std::move(session)), take_life_line_(std::move(take_life_line)) {}

Resumption::~Resumption() {
  stop();
  if (has_thread_) ::pthread_join(thread_, nullptr);
}

bool Resumption::is_needed() const {
  return std::any_of(session_.data.begin(), session_.data.end(),
                     [](const auto* stream) { return stream->is_cut(); });
}

void Resumption::stop() noexcept {
  stops_ = true;
  word_.wake();
}

std::optional<Error> Resumption::failure() const {
  if (state_.load() != State::kFailed) return std::nullopt;
  return failure_;
}

void Resumption::fail_with(Error why) {
  failure_ = std::move(why);
  state_ = State::kFailed;
}

void Resumption::begin(Clock::time_point since) noexcept {
  if (stops_) return;
  state_ = State::kTrying;
  // The last thread has no more to do than to hand over bytes, which is in vain now.
  if (has_thread_) ::pthread_join(thread_, nullptr);
  has_thread_ = false;
  for (auto* const stream : session_.data) stream->expect_cut(true);
  since_ = since;
  deadline_ = std::max(since + session_.grace, Clock::now() + kTryAtLeast);
  const auto thread = start_quiet_thread(
      "sluice-resume",
      [](void* self) -> void* {
        static_cast<Resumption*>(self)->run();
        return nullptr;
      },
      this);
  if (!thread) return fail_with(thread.error());
  thread_ = *thread;
  has_thread_ = true;
}

void Resumption::run() noexcept {
  SLUICE_LOG_INFO("session", "The server does not answer; new connections are tried for {} ms",
                  std::chrono::ceil<milliseconds>(deadline_ - Clock::now()).count());
  const std::uint64_t attempts_before = attempts_;
  has_life_line_ = false;
  const Status done = try_until_deadline();
  asked_.clear();
  if (!done) return fail_with(done.error());
  SLUICE_LOG_INFO("session", "The session is resumed after {} ms (asked {} times)",
                  std::chrono::ceil<milliseconds>(Clock::now() - since_).count(),
                  attempts_ - attempts_before);
  for (auto* const stream : session_.data) stream->expect_cut(false);
  state_ = State::kIdle;
  send_rest();
}

/// All of them at once: the peer takes from a lane only what a record has announced, and no record
/// behind one whose data it awaits.
void Resumption::send_rest() {
  std::vector<pollfd> held;
  do {
    held.clear();
    for (auto* const stream : session_.data)
      if (!stream->push_rest()) held.push_back({stream->fd(), POLLOUT, 0});
    if (!held.empty()) ::poll(held.data(), held.size(), kLookIntervalMs);
  } while (!held.empty() && !stops_ && state_.load() == State::kIdle);
}

Status Resumption::try_until_deadline() {
  for (auto pause = kPauseMin;; pause = std::min(2 * pause, kPauseMax)) {
    const std::uint32_t seen = word_.value();
    if (stops_) return fail(ErrorCode::kPeerClosed, "the session is given up");
    Status done = attempt();
    if (done || is_final(done.error())) return done;
    SLUICE_LOG_DEBUG("session", "Not resumed yet: {}", done.error().message);
    if (Clock::now() + pause >= deadline_)
      return fail(ErrorCode::kTimeout,
                  format("the server has not come back within its grace time of {} s; {}",
                         session_.grace.count() / 1000, done.error().message));
    word_.wait(seen, Clock::now() + pause);
  }
}

Status Resumption::attempt() {
  if (!has_life_line_) SLUICE_CHECK(replace_life_line());
  for (std::size_t lane = 0; lane < session_.data.size(); ++lane) SLUICE_CHECK(replace_data(lane));
  return {};
}

wire::Resume Resumption::next_resume(wire::Resume::Line line, std::size_t lane) {
  wire::Resume resume = session_.identity;
  resume.line = line;
  resume.attempt = ++attempts_;
  resume.lane = static_cast<std::uint8_t>(lane);
  return resume;
}

/// Before the server is known by its certificate, whatever fails was perhaps done by somebody else.
Result<Resumption::Stream> Resumption::open_life_line(Fd socket,
                                                      transport::Deadline deadline) const {
  if (!session_.encryption) return transport::make_socket_stream(std::move(socket));
  transport::Address server = session_.server;
  server.host = session_.encryption->host;
  auto stream = transport::tls::open_control(std::move(socket), server, session_.encryption->choice,
                                             false, tls_library, deadline);
  if (!stream) return of_this_attempt(stream.error());
  if (!(*stream)->kind().encrypted)
    return fail(ErrorCode::kSystem, "an encrypted session is not resumed in the clear");
  return stream;
}

/// Asks on a new connection and waits for the answer; without one, the connection is in `asked_`.
Result<Resumption::Stream> Resumption::ask(wire::Resume::Line line, std::size_t lane) {
  SLUICE_TRY(Fd socket, transport::connect_socket(session_.server, kConnectTimeout));
  const auto deadline = Clock::now() + kAnswerTimeout;
  SLUICE_TRY(Stream stream, line == wire::Resume::Line::kLifeLine
                                ? open_life_line(std::move(socket), deadline)
                                : transport::make_socket_stream(std::move(socket)));
  if (line == wire::Resume::Line::kData) session_.data[lane]->suspend();
  const auto talk = [&]() -> Result<wire::Frame> {
    SLUICE_CHECK(wire::write_frame_to(*stream, next_resume(line, lane), deadline));
    return wire::read_frame_from(*stream, deadline);
  };
  const auto answer = talk();
  if (answer && std::holds_alternative<wire::Resumed>(*answer)) return stream;
  asked_.push_back(std::move(stream));
  if (!answer) return of_this_attempt(answer.error());  // a stranger on that port for now
  if (const auto* refusal = std::get_if<wire::Refusal>(&*answer))
    return fail(ErrorCode::kPermission, refusal->message);
  return fail(ErrorCode::kSystem, "the server answered with an unexpected frame");
}

/// Until the handshake is over, anybody may be at the other end: it is told no more than the
/// session's number, its answers decide nothing, and the present connection stays in use.
Result<Resumption::Stream> Resumption::ask_encrypted_data(std::size_t lane) {
  SLUICE_TRY(const transport::tls::Library* library, tls_library());
  SLUICE_TRY(Fd socket, transport::connect_socket(session_.server, kConnectTimeout));
  const auto deadline = Clock::now() + kAnswerTimeout;
  wire::Resume resume = next_resume(wire::Resume::Line::kData, lane);
  const wire::SessionKey key = std::exchange(resume.session_key, {});
  resume.is_encrypted = 1;
  wire::Resume in_the_clear = resume;
  in_the_clear.attempt = 0;
  SLUICE_CHECK(wire::write_frame(socket.get(), in_the_clear, deadline));
  const auto answer = wire::read_frame(socket.get(), deadline);
  if (!answer || !std::holds_alternative<wire::Resumed>(*answer)) {
    has_life_line_ = false;  // if the session is over, the server says so where it can be believed
    return fail(ErrorCode::kSystem, "the server does not take the new data connection");
  }
  auto stream = prove_key(*library, std::move(socket),
                          {resume.session_id, key, lane, session_.data.size() - 1}, deadline);
  if (!stream) return of_this_attempt(stream.error());
  session_.data[lane]->suspend();
  const Status sent = wire::write_frame_to(**stream, resume, deadline);
  if (sent) return stream;
  asked_.push_back(std::move(*stream));
  return of_this_attempt(sent.error());
}

Status Resumption::replace_life_line() {
  SLUICE_TRY(Stream stream, ask(wire::Resume::Line::kLifeLine));
  has_life_line_ = true;
  take_life_line_(std::move(stream));
  return {};
}

Status Resumption::replace_data(std::size_t lane) {
  SLUICE_TRY(Stream next,
             session_.encryption ? ask_encrypted_data(lane) : ask(wire::Resume::Line::kData, lane));
  const Status done =
      transport::resume_from_client(*session_.data[lane], next, Clock::now() + kAnswerTimeout);
  if (next != nullptr) asked_.push_back(std::move(next));
  return done;
}

}  // namespace sluice::shim
