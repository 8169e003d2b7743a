// The client's way into the worker's staging memory: put and get between registered memories, over
// the endpoint of a wire.
#pragma once

#include "transport/transport.h"
#include "transport/ucx/plugin.h"
#include "transport/ucx/plugin/bell.h"
#include "transport/ucx/plugin/registered_memory.h"

#include <memory>
#include <mutex>
#include <vector>

namespace sluice::transport::ucx {

class Wire;

/// The wire owns it, and outlives what UCX does for it. Functions that take the lock need it.
class StagingPort final : public RemoteStaging {
 public:
  using Lock = std::unique_lock<std::mutex>;

  static Result<std::unique_ptr<StagingPort>> make(Wire& wire, ucp_ep_h endpoint,
                                                   std::unique_ptr<RegisteredMemory> memory,
                                                   const StagingOffer& offer);
  ~StagingPort() override;
  StagingPort(const StagingPort&) = delete;
  StagingPort& operator=(const StagingPort&) = delete;

  [[nodiscard]] std::span<std::byte> memory() const { return memory_->bytes(); }
  /// Puts and gets a few bytes: whether what UCX has promised works between these two.
  Status try_out(Lock& lock, Deadline deadline);
  /// Wakes whoever waits: something has ended, or everything.
  void ring();
  /// After the endpoint is closed and before its worker is.
  void forget_key();

  Result<Ticket> start_put(std::uint64_t offset, std::size_t bytes) override;
  Result<Ticket> start_get(std::uint64_t offset, std::size_t bytes) override;
  Status finish(Ticket ticket) override;

 private:
  /// What UCX gives back when an operation has ended.
  struct Operation {
    StagingPort* port = nullptr;
    Ticket ticket = 0;
  };
  StagingPort(Wire& wire, ucp_ep_h endpoint, std::unique_ptr<RegisteredMemory> memory)
      : wire_(wire), endpoint_(endpoint), memory_(std::move(memory)) {}
  [[nodiscard]] Status check(std::uint64_t offset, std::size_t bytes) const;
  Result<Ticket> put(std::uint64_t offset, std::size_t bytes);
  Result<Ticket> get(std::uint64_t offset, std::size_t bytes);
  /// For ucp_ep_flush_nbx() and ucp_get_nbx(), whose end is the operation's.
  ucp_request_param_t last_step(Operation& operation) const;
  Result<Ticket> started(std::unique_ptr<Operation> operation, void* request, const char* doing);
  static void on_done(void* request, ucs_status_t status, void* operation);
  [[nodiscard]] bool is_under_way(Ticket ticket) const;
  Status finish(Lock& lock, Ticket ticket, Deadline deadline);

  Wire& wire_;
  ucp_ep_h endpoint_;
  std::unique_ptr<RegisteredMemory> memory_;
  ucp_rkey_h key_ = nullptr;
  std::uint64_t remote_address_ = 0;
  Ticket last_ticket_ = 0;
  std::vector<Ticket> under_way_;
  /// One for each thread that waits, and those that nobody needs at the moment.
  std::vector<Bell*> waiting_;
  std::vector<std::unique_ptr<Bell>> idle_bells_;
};

}  // namespace sluice::transport::ucx
