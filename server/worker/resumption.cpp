#include "server/worker/resumption.h"

#include "common/log.h"
#include "transport/resume/handover.h"

#include <utility>

namespace sluice::server {

Resumption::~Resumption() {
  prover_.reset();
  for (const auto& line : lines_) line->is_superseded = true;
  for (const auto& line : lines_) supersede(*line);
}

std::unique_ptr<transport::ByteStream> Resumption::add(
    std::unique_ptr<transport::ByteStream> connection, bool survives_reset) {
  auto stream = std::make_unique<transport::ResumableStream>(std::move(connection), survives_reset);
  lines_.push_back(std::make_unique<Line>());
  lines_.back()->stream = stream.get();
  return stream;
}

std::unique_ptr<transport::Channel> Resumption::open(std::unique_ptr<transport::ByteStream> records,
                                                     transport::Lanes lanes, bool survives_reset) {
  is_encrypted_ = records->kind().encrypted;
  auto first = add(std::move(records), survives_reset);
  for (auto& lane : lanes) lane = add(std::move(lane), survives_reset);
  return transport::make_stream_channel(std::move(first), std::move(lanes));
}

void Resumption::supersede(Line& line) {
  line.is_superseded = true;
  if (line.thread.joinable()) line.thread.join();
}

void Resumption::take(Fd socket, const link::ResumeData& of) {
  if (of.lane >= lines_.size() || !socket.valid() || of.is_encrypted != is_encrypted_) return;
  if (!of.is_encrypted)
    return take_stream(*lines_[of.lane], transport::make_socket_stream(std::move(socket)));
  if (!proof_) return;
  if (prover_ == nullptr)
    prover_ = std::make_unique<Prover>(
        *proof_, [this](Candidates::Proved proved) { take_proved(std::move(proved)); });
  prover_->add(std::move(socket), of.lane, static_cast<std::uint8_t>(lines_.size() - 1));
}

/// The other end is the client, and this is the lane that it means; what else it said in the clear
/// counts for nothing.
void Resumption::take_proved(Candidates::Proved proved) {
  const auto* resume = proved.frame ? std::get_if<wire::Resume>(&*proved.frame) : nullptr;
  const bool is_for_this =
      resume != nullptr && proof_ && resume->line == wire::Resume::Line::kData &&
      resume->session_id == proof_->session_id && resume->lane == proved.attach.lane;
  if (!is_for_this)
    return SLUICE_LOG_WARN("session", "a connection that does not say what it resumes is closed");
  Line& line = *lines_[proved.attach.lane];
  if (resume->attempt <= line.newest_attempt) return;  // a newer one has overtaken it
  line.newest_attempt = resume->attempt;
  take_stream(line, std::move(proved.stream));
}

void Resumption::take_stream(Line& line, std::unique_ptr<transport::ByteStream> next) {
  supersede(line);
  line.is_superseded = false;
  line.thread = std::thread(
      [this, &line, taken = std::move(next)]() mutable { resume(line, std::move(taken)); });
}

void Resumption::resume(Line& line, std::unique_ptr<transport::ByteStream> next) {
  const Status done =
      transport::resume_from_server(*line.stream, std::move(next), line.is_superseded);
  if (done) {
    SLUICE_LOG_INFO("session", "a data connection is resumed");
    return line.stream->send_rest([&line] { return line.is_superseded.load(); });
  }
  if (done.error().code != ErrorCode::kProtocol) {
    SLUICE_LOG_DEBUG("session", "an attempt to resume: {}", done.error().message);
    return;  // the client tries again, or the broker ends the session
  }
  SLUICE_LOG_ERROR("session", "a data connection cannot be resumed: {}", done.error().message);
  // Without it the session is over: its records must not go on.
  for (const auto& each : lines_) each->stream->close();
}

}  // namespace sluice::server
