// Setting up and messages; wire_wait.cpp has the waits, wire_end.cpp the end.
#include "transport/ucx/plugin/wire.h"

#include "transport/ucx/plugin/ends.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

namespace sluice::transport::ucx {
namespace {

/// UCX may hold so many pieces of one send().
constexpr std::size_t kPendingMax = 16;
constexpr int kProgressMax = 1024;

unsigned usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 2;
  return static_cast<unsigned>(CPU_COUNT(&set));
}

/// In constant time: a peer that guesses learns nothing.
bool is_same(const Token& a, const Token& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ static_cast<unsigned>(b[i]);
  return difference == 0;
}

}  // namespace

/// What UCX needs until a message is out.
struct Wire::Sending {
  Wire* wire = nullptr;
  Header header;
};

Wire::Wire(Lane lane, const Token& token)
    : lane_(lane), token_(token), owner_pid_(::getpid()), spin_(usable_cores()) {}

Result<std::unique_ptr<Wire>> Wire::make(ucp_context_h context, Lane lane, const Token& token) {
  std::unique_ptr<Wire> wire(new Wire(lane, token));
  SLUICE_CHECK(wire->open(context));
  return wire;
}

Status Wire::open(ucp_context_h context) {
  if (receive_bell_.fd() < 0 || send_bell_.fd() < 0) return fail(system_error("eventfd", errno));
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // by mutex_
  const ScopedSignalBlock block;
  if (const auto status = ucp_worker_create(context, &params, &worker_); status != UCS_OK) {
    worker_ = nullptr;
    return fail(ucx_error("making a worker", status));
  }
  if (const auto status = ucp_worker_get_efd(worker_, &event_fd_); status != UCS_OK)
    return fail(ucx_error("asking for the event descriptor", status));
  SLUICE_CHECK(add_handler(Kind::kHello));
  SLUICE_CHECK(add_handler(Kind::kWelcome));
  SLUICE_CHECK(add_handler(Kind::kData));
  SLUICE_CHECK(add_handler(Kind::kCredit));
  SLUICE_CHECK(add_handler(Kind::kEnd));
  return add_handler(Kind::kEndSeen);
}

bool Wire::is_here() const {
  return ::getpid() == owner_pid_;
}

template <Kind kKind>
ucs_status_t Wire::on_message(void* self, const void* header, std::size_t header_bytes, void* data,
                              std::size_t bytes, const ucp_am_recv_param_t* param) {
  Wire& wire = *static_cast<Wire*>(self);
  Header head;
  // Who does not know the token cannot be told from a stray message: neither ends the session.
  if (header_bytes != sizeof head) return UCS_OK;
  std::memcpy(&head, header, sizeof head);
  if (!is_same(head.token, wire.token_)) return UCS_OK;
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    wire.break_off({ErrorCode::kProtocol, "UCX: a message by rendezvous"});
    return UCS_OK;
  }
  wire.take(kKind, head, {static_cast<const std::byte*>(data), bytes}, *param);
  return UCS_OK;
}

Status Wire::add_handler(Kind kind) {
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  params.id = static_cast<unsigned>(kind);
  params.flags = UCP_AM_FLAG_WHOLE_MSG;
  params.arg = this;
  switch (kind) {
    case Kind::kHello:
      params.cb = &on_message<Kind::kHello>;
      break;
    case Kind::kWelcome:
      params.cb = &on_message<Kind::kWelcome>;
      break;
    case Kind::kData:
      params.cb = &on_message<Kind::kData>;
      break;
    case Kind::kCredit:
      params.cb = &on_message<Kind::kCredit>;
      break;
    case Kind::kEnd:
      params.cb = &on_message<Kind::kEnd>;
      break;
    case Kind::kEndSeen:
      params.cb = &on_message<Kind::kEndSeen>;
      break;
  }
  const auto status = ucp_worker_set_am_recv_handler(worker_, &params);
  if (status == UCS_OK) return {};
  return fail(ucx_error("setting a handler", status));
}

void Wire::take(Kind kind, const Header& header, std::span<const std::byte> data,
                const ucp_am_recv_param_t& param) {
  note_consumed(header.consumed);
  switch (kind) {
    case Kind::kHello:
      if (greeter_ == nullptr && (param.recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0)
        greeter_ = param.reply_ep;
      return;
    case Kind::kWelcome:
      is_welcome_ = true;
      return send_bell_.ring();
    case Kind::kData:
      if (header.offset != inbox_.received() || has_peer_ended_ || !inbox_.append(data))
        return break_off({ErrorCode::kProtocol, "UCX: data that was not due"});
      if (gone_since_) gone_since_ = Clock::now();
      return receive_bell_.ring();
    case Kind::kCredit:
      return;
    case Kind::kEnd:
      if (header.offset != inbox_.received())
        return break_off({ErrorCode::kProtocol, "UCX: the end came before its time"});
      has_peer_ended_ = true;
      break;
    case Kind::kEndSeen:
      is_end_seen_ = true;
      break;
  }
  ring_all();
}

void Wire::note_consumed(std::uint64_t consumed) {
  if (consumed == peer_consumed_) return;
  if (consumed < peer_consumed_ || consumed > sent_)
    return break_off({ErrorCode::kProtocol, "UCX: a credit that cannot be"});
  peer_consumed_ = consumed;
  send_bell_.ring();
}

void Wire::on_endpoint_error(ucp_ep_h endpoint, ucs_status_t status) {
  if (endpoint != endpoint_) return broken_.push_back(endpoint);
  break_off({ErrorCode::kPeerClosed, ucx_error("the connection broke", status).message});
}

void Wire::on_sent(void* request, ucs_status_t status, void* sending) {
  auto* const done = static_cast<Sending*>(sending);
  Wire& wire = *done->wire;
  wire.idle_sendings_.emplace_back(done);
  --wire.pending_;
  if (status != UCS_OK)
    wire.break_off({ErrorCode::kPeerClosed, ucx_error("sending", status).message});
  wire.send_bell_.ring();
  ucp_request_free(request);
}

Status Wire::post(Kind kind, std::span<const std::byte> bytes) {
  if (broken_off_) return fail(why_over("sending"));
  if (idle_sendings_.empty()) idle_sendings_.push_back(std::make_unique<Sending>());
  std::unique_ptr<Sending> sending = std::move(idle_sendings_.back());
  idle_sendings_.pop_back();
  sending->wire = this;
  sending->header = {token_, sent_, inbox_.consumed()};
  ucp_request_param_t params{};
  params.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_AM_SEND_FLAG_EAGER;
  if (kind == Kind::kHello) params.flags |= UCP_AM_SEND_FLAG_REPLY;
  params.cb.send = &on_sent;
  params.user_data = sending.get();
  void* const request = ucp_am_send_nbx(endpoint_, static_cast<unsigned>(kind), &sending->header,
                                        sizeof(Header), bytes.data(), bytes.size(), &params);
  granted_ = inbox_.consumed();
  if (UCS_PTR_IS_PTR(request)) {
    ++pending_;
    static_cast<void>(sending.release());  // until on_sent()
    return {};
  }
  idle_sendings_.push_back(std::move(sending));
  if (request == nullptr) return {};
  break_off({ErrorCode::kPeerClosed, ucx_error("sending", UCS_PTR_STATUS(request)).message});
  return fail(why_over("sending"));
}

void Wire::wait_to_send(Lock& lock, const std::function<void()>& while_blocked,
                        const std::function<bool()>& is_due) {
  while (!wait_for(lock, send_bell_, Clock::now() + Channel::kBlockedInterval, is_due)) {
    lock.unlock();
    while_blocked();
    lock.lock();
  }
}

Status Wire::send(Lock& lock, std::span<const std::byte> bytes,
                  const std::function<void()>& while_blocked) {
  while (!bytes.empty()) {
    const auto room = [this] { return kWindowBytes - (sent_ - peer_consumed_); };
    if (room() == 0 || pending_ >= kPendingMax)
      wait_to_send(lock, while_blocked,
                   [&] { return (room() > 0 && pending_ < kPendingMax) || is_send_over(); });
    if (is_send_over()) return fail(why_over("sending"));
    const auto piece = bytes.first(std::min({bytes.size(), kPieceBytes, room()}));
    SLUICE_CHECK(post(Kind::kData, piece));
    sent_ += piece.size();
    bytes = bytes.subspan(piece.size());
  }
  // Over TCP, UCX keeps the part of a message that the socket does not take, calls it sent, and
  // sends it when somebody calls again. A message more shows that the data is out. (An RDMA device
  // needs nobody to send what it was given.)
  if (lane_ == Lane::kTcp) SLUICE_CHECK(post(Kind::kCredit));
  wait_to_send(lock, while_blocked, [&] { return pending_ == 0 || is_send_over(); });
  return is_send_over() ? Status(fail(why_over("sending"))) : Status();
}

void Wire::grant() {
  if (inbox_.consumed() - granted_ < kWindowBytes / 4 || endpoint_ == nullptr || is_closed_ ||
      has_peer_ended_ || broken_off_)
    return;
  static_cast<void>(post(Kind::kCredit));  // broken_off_ keeps the failure
}

Status Wire::open_staging(Lock& lock, std::unique_ptr<RegisteredMemory> memory,
                          const StagingOffer& offer, Deadline deadline) {
  SLUICE_TRY(port_, StagingPort::make(*this, endpoint_, std::move(memory), offer));
  SLUICE_CHECK(port_->try_out(lock, deadline));
  has_staging_ = true;
  return {};
}

std::span<std::byte> Wire::staging() const {
  if (held_staging_ != nullptr) return held_staging_->bytes();
  return has_staging_ ? port_->memory() : std::span<std::byte>();
}

bool Wire::progress() {
  bool has_worked = false;
  for (int i = 0; i < kProgressMax && ucp_worker_progress(worker_) != 0; ++i) has_worked = true;
  answer_end();
  return has_worked;
}

Wire::~Wire() {
  if (!is_here() || worker_ == nullptr) return;
  const Lock held = lock();
  if (is_closed_ && endpoint_ != nullptr) linger();
  if (endpoint_ != nullptr) close_now(worker_, endpoint_);
  if (port_ != nullptr) port_->forget_key();
  ucp_worker_destroy(worker_);
}

}  // namespace sluice::transport::ucx
