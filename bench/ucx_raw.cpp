#include "ucx_raw.h"

#include <arpa/inet.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMemoryBytes = 8 * 1024 * 1024;
constexpr std::size_t kUnderWayMax = 16;
constexpr std::chrono::seconds kConnectTime{10};
constexpr unsigned kPing = 1;

/// Ends the construction of a RawUcx.
struct Failure {
  std::string what;
};
void check(ucs_status_t status, const char* doing) {
  if (status != UCS_OK) throw Failure{std::string(doing) + ": " + ucs_status_string(status)};
}

ucp_context_h make_context(bool is_tcp) {
  ucp_config_t* config = nullptr;
  check(ucp_config_read(nullptr, nullptr, &config), "reading UCX's settings");
  ucp_config_modify(config, "TLS", is_tcp ? "tcp" : "rc_verbs,rc_mlx5");
  ucp_config_modify(config, "SOCKADDR_TLS_PRIORITY", is_tcp ? "tcp" : "rdmacm");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_RMA;
  params.mt_workers_shared = 1;
  ucp_context_h context = nullptr;
  const auto status = ucp_init(&params, config, &context);
  ucp_config_release(config);
  check(status, "starting UCX");
  return context;
}

ucp_worker_h make_worker(ucp_context_h context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h worker = nullptr;
  check(ucp_worker_create(context, &params, &worker), "making a worker");
  return worker;
}

struct Memory {
  std::vector<std::byte> bytes = std::vector<std::byte>(kMemoryBytes, std::byte{1});
  ucp_mem_h handle = nullptr;
  void map(ucp_context_h context) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = bytes.data();
    params.length = bytes.size();
    check(ucp_mem_map(context, &params, &handle), "registering memory");
  }
};

/// Lives as long as the program; its other end is a thread that does nothing but make progress.
class SpinningUcx final : public RawUcx {
 public:
  SpinningUcx(const char* host, bool is_tcp) : context_(make_context(is_tcp)) {
    ours_.map(context_);
    theirs_.map(context_);
    listen(host);
    client_ = make_worker(context_);
    set_handler(client_, [](void* self, const void*, std::size_t, void*, std::size_t,
                            const ucp_am_recv_param_t*) {
      static_cast<SpinningUcx*>(self)->is_answered_ = true;
      return UCS_OK;
    });
    connect();
  }
  // The process is about to end, and UCX's threads with it.
  ~SpinningUcx() override {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }
  SpinningUcx(const SpinningUcx&) = delete;
  SpinningUcx& operator=(const SpinningUcx&) = delete;

  void ping_pong(std::size_t bytes, std::span<double> round_us) override {
    for (double& round : round_us) {
      const auto start = Clock::now();
      is_answered_ = false;
      send(endpoint_, ours_.bytes.data(), bytes);
      while (!is_answered_) ucp_worker_progress(client_);
      round = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    }
  }
  double put_s(std::size_t count) override {
    return bulk_s(count, [&](std::byte* ours, std::uint64_t there, const auto& params) {
      return ucp_put_nbx(endpoint_, ours, kPieceBytes, there, key_, &params);
    });
  }
  double get_s(std::size_t count) override {
    return bulk_s(count, [&](std::byte* ours, std::uint64_t there, const auto& params) {
      return ucp_get_nbx(endpoint_, ours, kPieceBytes, there, key_, &params);
    });
  }

 private:
  static void set_handler(ucp_worker_h worker, ucp_am_recv_callback_t handler, void* self) {
    ucp_am_handler_param_t params{};
    params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                        UCP_AM_HANDLER_PARAM_FIELD_ARG;
    params.id = kPing;
    params.cb = handler;
    params.arg = self;
    check(ucp_worker_set_am_recv_handler(worker, &params), "setting a handler");
  }
  void set_handler(ucp_worker_h worker, ucp_am_recv_callback_t handler) {
    set_handler(worker, handler, this);
  }

  static void send(ucp_ep_h endpoint, const void* data, std::size_t bytes) {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;
    void* const request = ucp_am_send_nbx(endpoint, kPing, nullptr, 0, data, bytes, &params);
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  }

  void listen(const char* host) {
    server_ = make_worker(context_);
    set_handler(server_, [](void* self, const void*, std::size_t, void* data, std::size_t bytes,
                            const ucp_am_recv_param_t* param) {
      static_cast<void>(self);
      send(param->reply_ep, data, bytes);
      return UCS_OK;
    });
    auto& address = reinterpret_cast<sockaddr_in&>(address_);
    address.sin_family = AF_INET;
    if (::inet_pton(AF_INET, host, &address.sin_addr) != 1)
      throw Failure{std::string(host) + " is no IPv4 address"};
    ucp_listener_params_t params{};
    params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    params.sockaddr = {reinterpret_cast<const sockaddr*>(&address_), sizeof address};
    params.conn_handler.arg = this;
    params.conn_handler.cb = [](ucp_conn_request_h request, void* self) {
      ucp_ep_params_t endpoint{};
      endpoint.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
      endpoint.conn_request = request;
      ucp_ep_h made = nullptr;
      static_cast<void>(ucp_ep_create(static_cast<SpinningUcx*>(self)->server_, &endpoint, &made));
    };
    ucp_listener_h listener = nullptr;
    check(ucp_listener_create(server_, &params, &listener), "listening");
    ucp_listener_attr_t attributes{};
    attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
    check(ucp_listener_query(listener, &attributes), "asking for the port");
    address.sin_port = reinterpret_cast<const sockaddr_in&>(attributes.sockaddr).sin_port;
    thread_ = std::thread([this] {
      while (!stops_) ucp_worker_progress(server_);
    });
  }

  void connect() {
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr = {reinterpret_cast<const sockaddr*>(&address_), sizeof(sockaddr_in)};
    check(ucp_ep_create(client_, &params, &endpoint_), "connecting");
    send(endpoint_, ours_.bytes.data(), 1);
    for (const auto end = Clock::now() + kConnectTime; !is_answered_;) {
      ucp_worker_progress(client_);
      if (Clock::now() > end) throw Failure{"no answer"};
    }
    void* packed = nullptr;
    std::size_t bytes = 0;
    check(ucp_rkey_pack(context_, theirs_.handle, &packed, &bytes), "packing a key");
    check(ucp_ep_rkey_unpack(endpoint_, packed, &key_), "reading a key");
    ucp_rkey_buffer_release(packed);
  }

  template <class Start>
  double bulk_s(std::size_t count, const Start& start_one) {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.user_data = this;
    params.cb.send = [](void* request, ucs_status_t, void* self) {
      --static_cast<SpinningUcx*>(self)->under_way_;
      ucp_request_free(request);
    };
#if UCP_API_VERSION >= UCP_VERSION(1, 13)
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    params.memh = ours_.handle;
#endif
    const auto there = reinterpret_cast<std::uintptr_t>(theirs_.bytes.data());
    const auto start = Clock::now();
    for (std::size_t i = 0; i < count; ++i) {
      while (under_way_ >= kUnderWayMax) ucp_worker_progress(client_);
      const std::size_t at = i * kPieceBytes % kMemoryBytes;
      if (UCS_PTR_IS_PTR(start_one(ours_.bytes.data() + at, there + at, params))) ++under_way_;
    }
    ++under_way_;
    ucp_request_param_t flush = params;
    flush.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    if (!UCS_PTR_IS_PTR(ucp_ep_flush_nbx(endpoint_, &flush))) --under_way_;
    while (under_way_ > 0) ucp_worker_progress(client_);
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  ucp_context_h context_;
  Memory ours_, theirs_;
  sockaddr_storage address_{};
  ucp_worker_h server_ = nullptr, client_ = nullptr;
  std::atomic<bool> stops_{false};
  std::thread thread_;
  ucp_ep_h endpoint_ = nullptr;
  ucp_rkey_h key_ = nullptr;
  bool is_answered_ = false;
  std::size_t under_way_ = 0;
};

}  // namespace
}  // namespace sluice::bench

extern "C" __attribute__((visibility("default"))) sluice::bench::RawUcx* sluice_raw_ucx(
    const char* host, bool is_tcp, std::string* error) {
  using namespace sluice::bench;
  try {
    return new SpinningUcx(host, is_tcp);
  } catch (const Failure& failure) {
    *error = failure.what;
    return nullptr;
  }
}
