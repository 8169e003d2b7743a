// The node daemon: authenticates clients, gives each a worker process, answers the workers'
// questions to the ledger, and cleans up behind whoever dies. One thread, one epoll loop; it never
// waits for a client or a worker. It never executes a tenant's call.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "protocol/bootstrap.h"
#include "server/broker/ledger.h"
#include "server/broker/worker_process.h"
#include "server/config/config.h"
#include "server/link.h"

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sluice::server {

struct BrokerOptions {
  config::Config config;
  std::string worker_executable;
};

class Broker {
 public:
  explicit Broker(BrokerOptions options);
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  /// Opens the listening sockets. Err(kExhausted): an address is in use.
  Status open();
  /// As clients would write them, with the port that was picked for port 0.
  [[nodiscard]] std::vector<std::string> addresses() const;
  /// Serves until SIGTERM or SIGINT arrives, then stops the workers and removes the sockets.
  Status run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Client;
  struct Session;

  void watch(int fd, std::function<void()> on_readable);
  void unwatch(int fd);
  void at(Clock::time_point when, std::function<void()> what);
  int run_timers();

  void accept_on(int listen_fd);
  void drop_oldest_stranger();
  void on_client(const std::shared_ptr<Client>& client);
  void close_client(const std::shared_ptr<Client>& client);
  bool send(Client& client, const wire::Frame& frame);
  void refuse(const std::shared_ptr<Client>& client, wire::RefusalCode code,
              const std::string& why);
  void on_hello(const std::shared_ptr<Client>& client, const wire::Hello& hello);
  void on_attach(const std::shared_ptr<Client>& client, const wire::Attach& attach);

  void prestart();
  void on_idle_exit(pid_t pid);
  void start_session(const std::shared_ptr<Client>& client, const config::Tenant& tenant,
                     const wire::Hello& hello);
  void on_link(const std::shared_ptr<Session>& session);
  void on_ready(const std::shared_ptr<Session>& session, link::Ready& ready);
  void on_worker_exit(const std::shared_ptr<Session>& session);
  void end_session(const std::shared_ptr<Session>& session);
  void report(const Session& session);
  [[nodiscard]] std::uint64_t limit_of(const Session& session, std::uint32_t device) const;

  BrokerOptions options_;
  Ledger ledger_;
  Fd epoll_, signals_;
  struct Handler {
    std::uint32_t generation;  ///< tells an event of a closed descriptor from one of its successor
    std::function<void()> on_readable;
  };
  std::map<int, Handler> handlers_;
  std::uint32_t next_generation_ = 1;
  std::multimap<Clock::time_point, std::function<void()>> timers_;
  struct Listener {
    transport::Address address;
    Fd fd;
  };
  std::vector<Listener> listeners_;
  std::map<int, std::shared_ptr<Client>>
      clients_;  // shared with their handlers and timers; the last of them frees it
  std::map<std::uint64_t, std::shared_ptr<Session>> sessions_;
  std::deque<WorkerProcess> idle_;
  std::uint64_t next_session_ = 1;
  bool is_stopping_ = false;
};

}  // namespace sluice::server
