#include "server/worker/resumption.h"

#include "common/log.h"
#include "transport/resume/handover.h"

#include <string>
#include <utility>

namespace sluice::server {

Resumption::Resumption(std::optional<transport::tls::SessionSecret> secret)
    : secret_(std::move(secret)) {}

Resumption::~Resumption() {
  prover_.reset();
  supersede();
}

std::unique_ptr<transport::Channel> Resumption::open(std::unique_ptr<transport::ByteStream> first,
                                                     bool survives_reset) {
  is_encrypted_ = first->kind().encrypted;
  auto stream = std::make_unique<transport::ResumableStream>(std::move(first), survives_reset);
  stream_ = stream.get();
  return transport::make_stream_channel(std::move(stream));
}

void Resumption::supersede() {
  is_superseded_ = true;
  if (thread_.joinable()) thread_.join();
}

void Resumption::take(Fd socket, bool is_encrypted) {
  if (stream_ == nullptr || !socket.valid() || is_encrypted != is_encrypted_) return;
  if (!is_encrypted) return take_stream(transport::make_socket_stream(std::move(socket)));
  if (!secret_) return;
  if (prover_ == nullptr)
    prover_ = std::make_unique<Prover>(
        *secret_, [this](Candidates::Proved proved) { take_proved(std::move(proved)); });
  prover_->add(std::move(socket));
}

/// The other end is the client; what it said in the clear counts for nothing.
void Resumption::take_proved(Candidates::Proved proved) {
  const auto* resume = proved.frame ? std::get_if<wire::Resume>(&*proved.frame) : nullptr;
  const bool is_for_this = resume != nullptr && resume->line == wire::Resume::Line::kData &&
                           std::to_string(resume->session_id) == secret_->identity;
  if (!is_for_this)
    return SLUICE_LOG_WARN("session", "a connection that does not say what it resumes is closed");
  if (resume->attempt <= newest_attempt_) return;  // a newer one has overtaken it
  newest_attempt_ = resume->attempt;
  take_stream(std::move(proved.stream));
}

void Resumption::take_stream(std::unique_ptr<transport::ByteStream> next) {
  supersede();
  is_superseded_ = false;
  thread_ = std::thread([this, taken = std::move(next)]() mutable { resume(std::move(taken)); });
}

void Resumption::resume(std::unique_ptr<transport::ByteStream> next) {
  const Status done = transport::resume_from_server(*stream_, std::move(next), is_superseded_);
  if (done) {
    SLUICE_LOG_INFO("session", "the data connection is resumed");
    return stream_->send_rest([this] { return is_superseded_.load(); });
  }
  if (done.error().code != ErrorCode::kProtocol) {
    SLUICE_LOG_DEBUG("session", "an attempt to resume: {}", done.error().message);
    return;  // the client tries again, or the broker ends the session
  }
  SLUICE_LOG_ERROR("session", "the data connection cannot be resumed: {}", done.error().message);
  stream_->close();
}

}  // namespace sluice::server
