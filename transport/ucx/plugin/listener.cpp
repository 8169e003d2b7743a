// The worker's end, until its client has been found among those that connect.
#include "transport/ucx/plugin/ends.h"

#include <poll.h>

#include <algorithm>

namespace sluice::transport::ucx {
namespace {

constexpr std::size_t kCandidatesMax = 8;
constexpr std::chrono::seconds kTokenTime{2};
constexpr std::chrono::milliseconds kSleepMax{50};

class UcxListener final : public Listener {
 public:
  UcxListener(std::unique_ptr<Wire> wire, ucp_context_h context, const Setup& setup)
      : wire_(std::move(wire)), context_(context), setup_(setup) {}
  ~UcxListener() override { stop(); }
  UcxListener(const UcxListener&) = delete;
  UcxListener& operator=(const UcxListener&) = delete;

  Status open(const std::string& host) {
    SLUICE_TRY(const SocketAddress address, socket_address(host, 0));
    ucp_listener_params_t params{};
    params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    params.sockaddr = address.view();
    params.conn_handler.arg = this;
    params.conn_handler.cb = [](ucp_conn_request_h request, void* self) {
      static_cast<UcxListener*>(self)->requests_.push_back(request);
    };
    if (const auto status = ucp_listener_create(wire_->worker(), &params, &listener_);
        status != UCS_OK) {
      listener_ = nullptr;
      return fail(ucx_error(("listening on " + host).c_str(), status));
    }
    ucp_listener_attr_t attributes{};
    attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
    if (const auto status = ucp_listener_query(listener_, &attributes); status != UCS_OK)
      return fail(ucx_error("asking for the port", status));
    port_ = port_of(attributes.sockaddr);
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return port_; }

  Status serve_until_readable(int fd, Deadline deadline) override {
    Wire::Lock lock = wire_->lock();
    for (;;) {
      const bool has_worked = wire_->progress();
      look_at_candidates();
      pollfd p[2] = {{fd, POLLIN, 0}, {wire_->event_fd(), POLLIN, 0}};
      const auto now = Clock::now();
      const bool may_sleep = !has_worked && ucp_worker_arm(wire_->worker()) == UCS_OK &&
                             !wire_->progress() && now < deadline;
      look_at_candidates();
      const auto left = may_sleep ? std::min<Clock::duration>(left_until(deadline, now), kSleepMax)
                                  : Clock::duration::zero();
      const timespec timeout{0, std::chrono::nanoseconds(left).count()};
      if (::ppoll(p, 2, &timeout, nullptr) > 0 && p[0].revents != 0) return {};
      if (now >= deadline) return fail(ErrorCode::kTimeout, "UCX: the client did not come in time");
    }
  }

  Result<StagingOffer> offer_staging() override {
    if (setup_.lane == Lane::kTcp && !setup_.has_software_put)
      return fail(ErrorCode::kUnsupported, "over TCP, UCX checks no addresses");
    SLUICE_TRY(auto memory, RegisteredMemory::make(context_, kStagingBytes));
    StagingOffer offer;
    offer.address = reinterpret_cast<std::uintptr_t>(memory->bytes().data());
    offer.bytes = memory->bytes().size();
    SLUICE_TRY(offer.key, memory->key());
    wire_->hold_staging(std::move(memory));
    return offer;
  }

  Result<std::unique_ptr<Channel>> take(const Fd& life_line, bool uses_staging) override {
    {
      const Wire::Lock lock = wire_->lock();
      look_at_candidates();
      if (!has_client_)
        return fail(ErrorCode::kNotFound, "UCX: the client says that it is connected, and is not");
      SLUICE_CHECK(keep_life_line(*wire_, life_line));
      if (!uses_staging) wire_->hold_staging(nullptr);
    }
    stop();
    return make_channel(std::move(wire_));
  }

 private:
  struct Candidate {
    ucp_ep_h endpoint;
    Deadline token_due;
  };

  void look_at_candidates() {
    for (ucp_conn_request_h request : std::exchange(requests_, {})) admit(request);
    if (!has_client_) welcome(wire_->greeter());
    const auto now = Clock::now();
    drop_if([&](const Candidate& c) {
      return has_client_ || c.token_due <= now || wire_->is_broken(c.endpoint);
    });
  }

  void admit(ucp_conn_request_h request) {
    if (has_client_ || candidates_.size() >= kCandidatesMax) {
      ucp_listener_reject(listener_, request);
      return;
    }
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
    params.conn_request = request;
    // One that fails was somebody's who is gone again.
    if (const auto endpoint = make_endpoint(*wire_, params))
      candidates_.push_back({*endpoint, Clock::now() + kTokenTime});
  }

  void welcome(ucp_ep_h greeter) {
    const auto found = std::find_if(candidates_.begin(), candidates_.end(),
                                    [&](const Candidate& c) { return c.endpoint == greeter; });
    if (found == candidates_.end()) return;
    candidates_.erase(found);
    wire_->adopt(greeter);
    has_client_ = true;
    static_cast<void>(wire_->post(Kind::kWelcome));  // take() tells of a failure
  }

  template <class Which>
  void drop_if(const Which& which) {
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      if (!which(candidate)) return false;
      close_now(wire_->worker(), candidate.endpoint);
      wire_->forget(candidate.endpoint);
      return true;
    });
  }

  void stop() {
    if (wire_ == nullptr || !wire_->is_here()) return;
    const Wire::Lock lock = wire_->lock();
    for (ucp_conn_request_h request : std::exchange(requests_, {}))
      ucp_listener_reject(listener_, request);
    if (listener_ != nullptr) ucp_listener_destroy(std::exchange(listener_, nullptr));
    drop_if([](const Candidate&) { return true; });
  }

  std::unique_ptr<Wire> wire_;
  const ucp_context_h context_;
  const Setup setup_;
  ucp_listener_h listener_ = nullptr;
  std::uint16_t port_ = 0;
  std::vector<ucp_conn_request_h> requests_;
  std::vector<Candidate> candidates_;
  bool has_client_ = false;
};

}  // namespace

Result<std::unique_ptr<Listener>> make_listener(ucp_context_h context, const Setup& setup,
                                                const std::string& host, const Token& token) {
  SLUICE_TRY(auto wire, Wire::make(context, setup.lane, token));
  auto listener = std::make_unique<UcxListener>(std::move(wire), context, setup);
  SLUICE_CHECK(listener->open(host));
  return std::unique_ptr<Listener>(std::move(listener));
}

}  // namespace sluice::transport::ucx
