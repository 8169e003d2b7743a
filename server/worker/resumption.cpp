#include "server/worker/resumption.h"

#include "common/log.h"
#include "transport/resume/handover.h"

namespace sluice::server {

Resumption::~Resumption() {
  supersede();
}

std::unique_ptr<transport::Channel> Resumption::open(Fd socket, bool survives_reset) {
  auto stream = std::make_unique<transport::ResumableStream>(
      transport::make_socket_stream(std::move(socket)), survives_reset);
  stream_ = stream.get();
  return transport::make_stream_channel(std::move(stream));
}

void Resumption::supersede() {
  is_superseded_ = true;
  if (thread_.joinable()) thread_.join();
}

void Resumption::take(Fd socket) {
  if (stream_ == nullptr || !socket.valid()) return;
  supersede();
  is_superseded_ = false;
  thread_ = std::thread([this, taken = std::move(socket)]() mutable { resume(std::move(taken)); });
}

void Resumption::resume(Fd socket) {
  const Status done = transport::resume_from_server(
      *stream_, transport::make_socket_stream(std::move(socket)), is_superseded_);
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
