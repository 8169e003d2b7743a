#include "transport/ucx/plugin/staging_port.h"

#include "common/format.h"
#include "transport/ucx/plugin/wire.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sluice::transport::ucx {
namespace {

constexpr std::size_t kTrialBytes = 64;
/// UCX reads a key without being told its length: up to 64 parts of up to 255 bytes. Behind what
/// came from the peer there must be that much memory.
constexpr std::size_t kKeyMarginBytes = 64 * 256;

/// The registered memory is named where UCX can be told; 1.12 finds out by itself.
void name_memory([[maybe_unused]] ucp_request_param_t& params, [[maybe_unused]] ucp_mem_h memory) {
#if UCP_API_VERSION >= UCP_VERSION(1, 13)
  params.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  params.memh = memory;
#endif
}

}  // namespace

Result<std::unique_ptr<StagingPort>> StagingPort::make(Wire& wire, ucp_ep_h endpoint,
                                                       std::unique_ptr<RegisteredMemory> memory,
                                                       const StagingOffer& offer) {
  if (offer.bytes != memory->bytes().size())
    return fail(ErrorCode::kProtocol, format("the worker's staging memory has {} bytes, ours {}",
                                             offer.bytes, memory->bytes().size()));
  std::unique_ptr<StagingPort> port(new StagingPort(wire, endpoint, std::move(memory)));
  std::string key = offer.key;
  key.resize(key.size() + kKeyMarginBytes);
  if (const auto status = ucp_ep_rkey_unpack(endpoint, key.data(), &port->key_); status != UCS_OK) {
    port->key_ = nullptr;
    return fail(ucx_error("reading the worker's memory key", status));
  }
  port->remote_address_ = offer.address;
  return port;
}

StagingPort::~StagingPort() {
  forget_key();
}

void StagingPort::forget_key() {
  if (key_ != nullptr) ucp_rkey_destroy(std::exchange(key_, nullptr));
}

Status StagingPort::try_out(Lock& lock, Deadline deadline) {
  std::vector<std::byte> pattern(kTrialBytes);
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<std::byte>(i * 37 + 1);
  std::byte* const at = memory().data();
  std::memcpy(at, pattern.data(), pattern.size());
  SLUICE_TRY(const Ticket there, put(0, pattern.size()));
  SLUICE_CHECK(finish(lock, there, deadline));
  std::memset(at, 0, pattern.size());
  SLUICE_TRY(const Ticket back, get(0, pattern.size()));
  SLUICE_CHECK(finish(lock, back, deadline));
  if (std::memcmp(at, pattern.data(), pattern.size()) != 0)
    return fail(ErrorCode::kProtocol, "UCX: what was put into the worker's memory is not there");
  return {};
}

Status StagingPort::check(std::uint64_t offset, std::size_t bytes) const {
  if (wire_.is_send_over()) return fail(wire_.why_over("moving bulk data"));
  const std::size_t all = memory().size();
  if (bytes == 0 || bytes > all || offset > all - bytes)
    return fail(ErrorCode::kInvalidArgument, "not within the staging memory");
  return {};
}

ucp_request_param_t StagingPort::last_step(Operation& operation) const {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.send = &on_done;
  params.user_data = &operation;
  return params;
}

/// The end of a put says only that its source may change. The record that names the bytes is an
/// active message, and UCX orders messages after a put only if the put is flushed: a fence orders
/// what one lane carries, put and messages may have a lane each, and software put is answered
/// by the peer. A flush ends when the bytes are at the peer, over every lane. Several are under way
/// at once, so its round trip is paid once per copy and not once per slot.
Result<RemoteStaging::Ticket> StagingPort::put(std::uint64_t offset, std::size_t bytes) {
  SLUICE_CHECK(check(offset, bytes));
  ucp_request_param_t params{};
  name_memory(params, memory_->handle());
  void* const request = ucp_put_nbx(endpoint_, memory().data() + offset, bytes,
                                    remote_address_ + offset, key_, &params);
  if (UCS_PTR_IS_ERR(request)) {
    wire_.break_off({ErrorCode::kPeerClosed, ucx_error("put", UCS_PTR_STATUS(request)).message});
    return fail(wire_.why_over("moving bulk data"));
  }
  if (request != nullptr) ucp_request_free(request);  // it goes on; the flush tells of its end
  auto operation = std::make_unique<Operation>(Operation{this, ++last_ticket_});
  const ucp_request_param_t flush = last_step(*operation);
  void* const flushing = ucp_ep_flush_nbx(endpoint_, &flush);
  return started(std::move(operation), flushing, "flushing a put");
}

Result<RemoteStaging::Ticket> StagingPort::get(std::uint64_t offset, std::size_t bytes) {
  SLUICE_CHECK(check(offset, bytes));
  auto operation = std::make_unique<Operation>(Operation{this, ++last_ticket_});
  ucp_request_param_t params = last_step(*operation);
  name_memory(params, memory_->handle());
  void* const request = ucp_get_nbx(endpoint_, memory().data() + offset, bytes,
                                    remote_address_ + offset, key_, &params);
  return started(std::move(operation), request, "get");
}

Result<RemoteStaging::Ticket> StagingPort::started(std::unique_ptr<Operation> operation,
                                                   void* request, const char* doing) {
  const Ticket ticket = operation->ticket;
  if (UCS_PTR_IS_ERR(request)) {
    wire_.break_off({ErrorCode::kPeerClosed, ucx_error(doing, UCS_PTR_STATUS(request)).message});
    return fail(wire_.why_over("moving bulk data"));
  }
  if (request != nullptr) {
    under_way_.push_back(ticket);
    static_cast<void>(operation.release());  // until on_done()
  }
  return ticket;
}

void StagingPort::on_done(void* request, ucs_status_t status, void* operation) {
  const std::unique_ptr<Operation> done(static_cast<Operation*>(operation));
  StagingPort& port = *done->port;
  std::erase(port.under_way_, done->ticket);
  if (status != UCS_OK)
    port.wire_.break_off({ErrorCode::kPeerClosed, ucx_error("moving bulk data", status).message});
  port.ring();
  ucp_request_free(request);
}

void StagingPort::ring() {
  for (Bell* bell : waiting_) bell->ring();
}

bool StagingPort::is_under_way(Ticket ticket) const {
  return std::find(under_way_.begin(), under_way_.end(), ticket) != under_way_.end();
}

Status StagingPort::finish(Lock& lock, Ticket ticket, Deadline deadline) {
  if (is_under_way(ticket)) {
    std::unique_ptr<Bell> bell;
    if (idle_bells_.empty()) {
      bell = std::make_unique<Bell>();
    } else {
      bell = std::move(idle_bells_.back());
      idle_bells_.pop_back();
    }
    waiting_.push_back(bell.get());
    const bool is_over = wire_.wait_for(
        lock, *bell, deadline, [&] { return !is_under_way(ticket) || wire_.is_send_over(); });
    std::erase(waiting_, bell.get());
    idle_bells_.push_back(std::move(bell));
    if (!is_over) return fail(ErrorCode::kTimeout, "UCX: put and get have no effect");
  }
  if (is_under_way(ticket) || wire_.is_broken_off())
    return fail(wire_.why_over("moving bulk data"));
  return {};
}

Result<RemoteStaging::Ticket> StagingPort::start_put(std::uint64_t offset, std::size_t bytes) {
  const Lock lock = wire_.lock();
  return put(offset, bytes);
}

Result<RemoteStaging::Ticket> StagingPort::start_get(std::uint64_t offset, std::size_t bytes) {
  const Lock lock = wire_.lock();
  return get(offset, bytes);
}

Status StagingPort::finish(Ticket ticket) {
  Lock lock = wire_.lock();
  return finish(lock, ticket, Deadline::max());
}

}  // namespace sluice::transport::ucx
