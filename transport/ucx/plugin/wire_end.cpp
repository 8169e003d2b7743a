// How a wire ends: by a word of one of the two, or by a failure.
#include "transport/ucx/plugin/ends.h"
#include "transport/ucx/plugin/wire.h"

#include <poll.h>
#include <sys/socket.h>

namespace sluice::transport::ucx {
namespace {

/// How long the end of the life line may precede the last messages.
constexpr std::chrono::milliseconds kGoneGrace{250};
/// How long the destructor waits for the peer's word.
constexpr std::chrono::milliseconds kLinger{250};

}  // namespace

bool Wire::is_send_over() const {
  return is_closed_ || has_peer_ended_ || broken_off_ || gone_since_;
}

bool Wire::is_receive_over() const {
  return is_closed_ || has_peer_ended_ || broken_off_ ||
         (gone_since_ && Clock::now() - *gone_since_ > kGoneGrace);
}

Error Wire::why_over(const std::string& doing) const {
  if (broken_off_) return broken_off_->with_context(doing);
  return {ErrorCode::kPeerClosed,
          doing + (is_closed_ ? ": this channel is closed" : ": the peer closed the connection")};
}

void Wire::answer_end() {
  if (!has_peer_ended_ || is_end_answered_ || endpoint_ == nullptr || broken_off_) return;
  is_end_answered_ = true;
  static_cast<void>(post(Kind::kEndSeen));
}

void Wire::ring_all() {
  receive_bell_.ring();
  send_bell_.ring();
  if (port_ != nullptr) port_->ring();
}

void Wire::break_off(Error why) {
  if (!broken_off_) broken_off_ = std::move(why);
  ring_all();
}

void Wire::close() {
  if (is_closed_) return;
  is_closed_ = true;
  if (endpoint_ != nullptr && !broken_off_) static_cast<void>(post(Kind::kEnd));
  ring_all();
  if (life_line_.valid()) ::shutdown(life_line_.get(), SHUT_RDWR);
}

/// An endpoint that is taken down at once takes along what the peer has received and not yet looked
/// at.
void Wire::linger() {
  const Deadline end = Clock::now() + kLinger;
  const auto is_done = [this] {
    return broken_off_ || (pending_ == 0 && (is_end_seen_ || has_peer_ended_));
  };
  for (progress(); !is_done() && Clock::now() < end; progress()) {
    pollfd p{event_fd_, POLLIN, 0};
    if (ucp_worker_arm(worker_) == UCS_OK && !progress()) ::poll(&p, 1, 5);
  }
}

void close_now(ucp_worker_h worker, ucp_ep_h endpoint) {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* const request = ucp_ep_close_nbx(endpoint, &params);
  if (!UCS_PTR_IS_PTR(request)) return;
  const Deadline end = Clock::now() + kLinger;
  while (ucp_request_check_status(request) == UCS_INPROGRESS && Clock::now() < end)
    ucp_worker_progress(worker);
  ucp_request_free(request);
}

}  // namespace sluice::transport::ucx
