// Divides the devices' time, and the ways of data to them and from them, among the sessions of this
// node: a thread of its own, so that no login and no administrator delays a turn. It knows sessions
// and tenants by number and name; what a tenant is entitled to the broker says.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "server/turns/copy_queue.h"
#include "server/turns/device_turns.h"
#include "server/turns/pages.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace sluice::server::turns {

/// What a session's worker gets: descriptors of the two pages and of the bell (an eventfd).
struct Seat {
  int grants = -1, uses = -1, bell = -1;  ///< the server keeps them
};

/// What a tenant had of the devices.
struct TenantTime {
  std::vector<Duration> served;                          ///< charged, by device
  std::array<Duration, scheduler::kReasonCount> held{};  ///< of all devices together
  [[nodiscard]] Duration total_served() const {
    return std::accumulate(served.begin(), served.end(), Duration(0));
  }
};

/// Thread-safe.
class TurnServer {
 public:
  /// Called by the thread; must not call back.
  using Overrun = std::function<void(std::uint64_t session, Duration, bool is_final)>;
  /// `policy`: a name that scheduler::make_policy() knows.
  static Result<std::unique_ptr<TurnServer>> start(const std::string& policy, TurnOptions options,
                                                   Overrun on_overrun);
  ~TurnServer();
  TurnServer(const TurnServer&) = delete;
  TurnServer& operator=(const TurnServer&) = delete;

  /// Of a tenant that has sessions: the share that it has from now on.
  void set_share(const std::string& tenant, const scheduler::Share& share);
  /// Nothing is granted before set_device_count(). The newest share is the tenant's; `limit` is the
  /// session's own, a fraction of each device's time.
  Result<Seat> attach(std::uint64_t session, const std::string& tenant,
                      const scheduler::Share& share, double limit = 1);
  void set_device_count(std::uint64_t session, std::size_t count);
  /// The session's worker has ended.
  void detach(std::uint64_t session);

  /// How long the session has computed on each device so far, as its worker says.
  [[nodiscard]] std::vector<Duration> busy_of(std::uint64_t session) const;
  /// Since the server started.
  [[nodiscard]] TenantTime time_of(const std::string& tenant) const;
  /// The thread works. While it does not, permissions run out and nothing new computes.
  [[nodiscard]] bool is_alive() const;

 private:
  struct Session;
  struct Tenant {
    scheduler::Share share;
    std::size_t sessions = 0;
    Time leaves_at = Time::max();  ///< once it has none
    TenantTime before;             ///< what it had in earlier stays
  };
  TurnServer(std::string policy, TurnOptions options, Overrun on_overrun);

  Status open();
  void serve();
  void wait_for_events();
  void set_timer(Time at);
  void look_at(std::uint64_t session);
  DeviceTurns& device(std::size_t index, Time now);
  CopyQueue& copies(unsigned index, Time now);
  void seat(std::uint64_t id, Session& session, unsigned device);
  void share(TenantId tenant, const scheduler::Share& share);
  void forget_tenants();
  [[nodiscard]] TenantTime time_of(TenantId id, const Tenant& tenant) const;
  void wake();

  const std::string policy_;
  const TurnOptions options_;
  const Overrun on_overrun_;
  Fd epoll_, timer_, wake_;
  std::atomic<bool> stops_{false};
  std::atomic<std::uint64_t> looked_at_ns_{0};

  mutable std::mutex mutex_;  ///< guards what follows
  std::vector<std::unique_ptr<DeviceTurns>> devices_;
  std::map<unsigned, CopyQueue> copies_;  ///< by copy_queue()
  std::map<std::string, TenantId> ids_;
  std::map<TenantId, Tenant> tenants_;
  std::map<std::uint64_t, std::unique_ptr<Session>> sessions_;
  std::vector<std::function<void()>> overruns_;  ///< to be told without the lock
  std::thread thread_;
};

}  // namespace sluice::server::turns
