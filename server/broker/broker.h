// The node daemon: authenticates clients, gives each a worker process, answers the workers'
// questions to the ledger, enforces the tenants' limits, and cleans up behind whoever dies. One
// thread, one epoll loop; it never waits for a client or a worker. It never executes a tenant's
// call. Everything here is confined to the thread that runs it, except post() and stop().
//
// broker.cpp: the loop; connections.cpp: from accept to a frame; admission.cpp: who is let in;
// session.cpp: workers and the life of a session; life_line.cpp: heartbeats, silence, endings;
// encryption.cpp: TLS; resumption.cpp: connections that take the place of others;
// administration.cpp: what sluicectl asks; shares.cpp: the devices' time; inventory.cpp: which
// devices there are; observers.cpp: clients that only look at their slice; metering.cpp: who used
// how much; memory.cpp: the workers' questions to the ledger; denials.cpp: what is said of a no;
// overhead.cpp: what processes have beyond that.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "protocol/bootstrap.h"
#include "server/broker/ledger.h"
#include "server/broker/meter.h"
#include "server/broker/process_watch.h"
#include "server/broker/tenants.h"
#include "server/broker/usage.h"
#include "server/broker/worker_process.h"
#include "server/config/config.h"
#include "server/control/types.h"
#include "server/link.h"
#include "server/store/state.h"
#include "server/store/usage_log.h"
#include "server/turns/turn_server.h"
#include "transport/stream/byte_stream.h"
#include "transport/tls/context.h"

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::server {

/// How patient the broker is; tests are less so.
struct BrokerTimes {
  std::chrono::milliseconds hello{5'000};    ///< for a stranger to say who it is
  std::chrono::milliseconds start{30'000};   ///< for a worker to load the driver
  std::chrono::milliseconds attach{10'000};  ///< for the data connection to come
  /// For a worker whose client said goodbye or whose session is ended: it ends by itself and
  /// reports its last figures.
  std::chrono::milliseconds last_report{500};
  std::chrono::milliseconds watch{1'000};  ///< between looks at idle, old and silent sessions
  /// Until a driver that could not be loaded is tried again for its devices.
  std::chrono::milliseconds inventory_retry{30'000};
  /// Until what was metered is given away to be written; a killed server loses that.
  std::chrono::milliseconds usage_write = store::UsageLog::kWriteInterval;
};

struct BrokerOptions {
  config::Config config;
  std::string worker_executable;
  std::string config_file = {};  ///< shown to administrators
  /// The configuration as it would be now, checked; empty: there is nothing to read again.
  std::function<Result<config::Config>()> reload = {};
  BrokerTimes times = {};
  /// Ask the driver for its devices at once, and not when somebody wants to know them.
  bool takes_inventory = false;
  std::string nvml_library = kNvmlLibrary;
};

struct Observer;

class Broker final : public control::Administration {
  friend class LedgerFault;  ///< tests break the ledger with it

 public:
  explicit Broker(BrokerOptions options);
  ~Broker() override;
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  /// Opens the state file and the listening sockets. Err(kExhausted): an address or the state_dir
  /// is in use.
  Status open();
  /// As clients would write them, with the port that was picked for port 0.
  [[nodiscard]] std::vector<std::string> addresses() const;
  /// Serves until SIGTERM or SIGINT arrives or stop() is called; gives the sessions drain_timeout
  /// to end by themselves (a second signal cuts that short), collects the workers' last figures
  /// and removes the sockets. SIGHUP reads the configuration again.
  Status run();
  /// Thread-safe. `what` runs in the broker's thread; it is dropped when run() is over.
  void post(std::function<void()> what);
  /// Thread-safe: as SIGTERM.
  void stop();

  [[nodiscard]] control::ServerInfo server() const override;
  [[nodiscard]] std::vector<control::SessionInfo> sessions() const override;
  [[nodiscard]] std::vector<control::TenantInfo> tenants() const override;
  Result<control::Changed> set_tenant(const std::string& name,
                                      const config::TenantOverride& change) override;
  Result<control::Changed> remove_tenant(const std::string& name, bool is_forced) override;
  Result<control::Changed> new_token(const std::string& tenant) override;
  Result<control::Changed> revoke_token(const std::string& tenant) override;
  Result<std::uint32_t> kill_session(std::uint64_t id) override;
  Result<std::uint32_t> kill_tenant(const std::string& tenant) override;
  Result<std::string> reload() override;
  std::vector<control::MeteredUse> metered() override;
  std::shared_ptr<store::UsageLog> usage_log() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Client;
  struct Session;

  void watch(int fd, std::function<void()> on_readable);
  void unwatch(int fd);
  void at(Clock::time_point when, std::function<void()> what);
  int run_timers();
  void handle_events(int timeout_ms);
  void on_signal();
  void run_mail();
  void close_listeners();
  void begin_stop();
  void end_all();

  void accept_on(int listen_fd);
  void drop_oldest_stranger();
  void on_client(const std::shared_ptr<Client>& client);
  void take_bytes(const std::shared_ptr<Client>& client, std::span<const std::byte> bytes);
  void on_frame(const std::shared_ptr<Client>& client);
  /// The connection has ended: a session may outlive that.
  void on_end(const std::shared_ptr<Client>& client, transport::ByteStream::Ending ending);
  /// The client is gone, or what it says is nonsense.
  void lose_client(const std::shared_ptr<Client>& client);
  [[nodiscard]] static std::size_t wanted(const Client& client);
  void close_client(const std::shared_ptr<Client>& client);
  /// It is a client of ours no more; the connection stays open.
  Fd release_client(const std::shared_ptr<Client>& client);
  bool send(Client& client, const wire::Frame& frame);
  void refuse(const std::shared_ptr<Client>& client, wire::RefusalCode code,
              const std::string& why);

  void on_hello(const std::shared_ptr<Client>& client, const wire::Hello& hello);
  void on_attach(const std::shared_ptr<Client>& client, const wire::Attach& attach);
  static bool may_attach(Session& session, const wire::Attach& attach);
  [[nodiscard]] wire::Welcome welcome_of(const wire::Hello& hello) const;
  const config::Tenant* authenticate(const std::shared_ptr<Client>& client,
                                     const wire::Hello& hello);

  void take_inventory();
  void on_inventory();
  void on_inventory_exit();
  void note_devices(const link::Ready& ready);
  void miss_inventory(const std::string& why);

  void begin_observing(const std::shared_ptr<Client>& client, const config::Tenant& tenant,
                       const wire::Hello& hello);
  void on_slice_query(const std::shared_ptr<Client>& client, const wire::SliceQuery& query);
  void answer_observer(const std::shared_ptr<Client>& client);
  void answer_waiting_observers();
  [[nodiscard]] wire::SliceStatus slice_of(const config::Tenant& tenant, const Observer& observer,
                                           const wire::SliceQuery& query) const;
  [[nodiscard]] std::vector<wire::SliceDevice> slice_devices(const config::Tenant& tenant,
                                                             const Usage::Totals& busy,
                                                             const Usage::Recent& recent,
                                                             const wire::SliceQuery& query) const;
  [[nodiscard]] wire::SliceSession slice_session(const Session& session) const;
  void note_usage();
  Status open_state();
  void meter_tenant(const std::string& name);
  void meter_time();
  void write_usage();
  void keep_writing_usage();
  /// Of its sessions, those that are over included.
  [[nodiscard]] Usage::Totals busy_of_tenant(const std::string& tenant) const;

  bool learn_kind(const std::shared_ptr<Client>& client);
  bool advance_handshake(const std::shared_ptr<Client>& client);
  void on_encrypted(const std::shared_ptr<Client>& client);
  [[nodiscard]] link::AttachData encrypted_data(const wire::Attach& attach) const;
  void on_encrypted_attach(const std::shared_ptr<Client>& client, const wire::Attach& attach);
  [[nodiscard]] std::string plain_refusal(const Client& client) const;
  [[nodiscard]] static std::string certified_tenant(const Client& client);
  /// Err: the certificate cannot be used. Null: there is none.
  static Result<transport::tls::Context> tls_context_of(const config::Config& config);

  Status start_turns();
  Status give_turns(const Session& session);
  void on_overrun(std::uint64_t session, std::chrono::milliseconds late, bool is_final);
  void update_shares();

  void prestart();
  void on_idle_exit(pid_t pid);
  void start_session(const std::shared_ptr<Client>& client, const config::Tenant& tenant,
                     const wire::Hello& hello);
  void on_link(const std::shared_ptr<Session>& session);
  void on_ready(const std::shared_ptr<Session>& session, link::Ready& ready);
  void on_stats(Session& session, const link::Stats& stats);
  void on_worker_exit(const std::shared_ptr<Session>& session);
  /// The client is gone: its worker sees that too, and has a moment for its last figures.
  void end_session(const std::shared_ptr<Session>& session);
  /// We end it: the client is told why, the worker is told to stop.
  void end_session(const std::shared_ptr<Session>& session, wire::EndingCode code,
                   const std::string& why);
  void kill_later(const std::shared_ptr<Session>& session, std::chrono::milliseconds time);
  /// Of a worker that breaks the rules of the link.
  static void kill_worker(const Session& session, const std::string& why);
  void report(const Session& session);
  /// The tenant's settings as they are now; if it was removed, as they were.
  [[nodiscard]] const config::Tenant& tenant_of(const Session& session) const;
  /// What a worker asks the ledger, and what it tells it.
  void on_memory(const std::shared_ptr<Session>& session, const link::Message& message);
  void answer_memory(const std::shared_ptr<Session>& session);
  [[nodiscard]] bool is_beyond_wish(const Session& session, const link::Charge& charge) const;
  Ledger::Verdict charge(Session& session, const link::Charge& charge);
  [[nodiscard]] static Ledger::Holder holder(const Session& session, std::uint32_t device);
  [[nodiscard]] bool counts_against_slice(const Session& session, MemoryKind kind) const;
  void answer_charge(Session& session, const link::Charge& asked, Ledger::Verdict verdict);
  void on_refund(Session& session, const link::Refund& refund);
  void on_measured(Session& session, const link::Measured& measured);
  void on_ledger_change(const std::string& tenant);
  void watch_ledger();
  void watch_processes(const link::Ready& ready);
  void on_processes(std::uint32_t device, const GpuProcesses::Bytes& bytes);
  void update_ledger();
  bool recall_others(const std::shared_ptr<Session>& session, std::uint32_t device);
  void on_recalled(const Session& session);
  void settle_memory(const std::shared_ptr<Session>& session);
  void retry_memory(const std::string& tenant);
  void send_answer(Session& session, std::uint32_t device, bool is_granted);
  void deny(Session& session, const link::Charge& asked, Ledger::Verdict verdict);
  [[nodiscard]] std::string denial_text(const Session& session, const link::Charge& asked,
                                        Ledger::Verdict verdict) const;
  [[nodiscard]] std::string holders_text(const std::string& tenant, std::uint32_t device) const;
  [[nodiscard]] std::uint64_t limit_of(const Session& session, std::uint32_t device) const;

  [[nodiscard]] std::string resume_refusal(const Client& client, const wire::Resume& resume) const;
  void on_encrypted_resume(const std::shared_ptr<Client>& client, const wire::Resume& resume);
  void pass_candidate(Session& session);
  void on_resume(const std::shared_ptr<Client>& client, const wire::Resume& resume);
  void resume_life_line(const std::shared_ptr<Client>& client,
                        const std::shared_ptr<Session>& session);
  void await_resumption(const std::shared_ptr<Session>& session);

  void watch_silence(int fd) const;
  void on_ping(const std::shared_ptr<Client>& client, const wire::Ping& ping);
  void tell(Session& session, const wire::Ending& ending);
  void watch_sessions();
  void watch_session(const std::shared_ptr<Session>& session);

  void apply_log_level() const;
  [[nodiscard]] control::SessionInfo info_of(const Session& session) const;
  [[nodiscard]] control::TenantInfo info_of(const config::Tenant& tenant) const;
  [[nodiscard]] control::Changed changed(const std::string& tenant) const;
  std::uint32_t kill_all_of(const std::string& tenant, const std::string& why);

  static constexpr std::size_t kReadBytes = 64 * 1024;

  BrokerOptions options_;
  transport::tls::Context tls_;          ///< null: this server has no certificate
  std::unique_ptr<store::State> state_;  ///< once open
  TenantTable tenants_;
  Meter meter_;
  std::shared_ptr<store::UsageLog> usage_log_;
  struct Denials {
    std::uint64_t count = 0;
    Clock::time_point logged{};
  };
  std::map<std::string, Denials> denials_;  ///< of memory, by tenant
  Ledger ledger_;
  bool is_ledger_mourned_ = false;  ///< its violation was said
  Clock::time_point started_ = Clock::now();
  /// The driver's devices, as the newest worker reported them; version 0: none has.
  link::Ready inventory_;
  std::string inventory_release_;  ///< of the driver
  std::string inventory_problem_;  ///< why the newest could not; empty: it could, or none has tried
  std::unique_ptr<WorkerProcess> inventory_worker_;  ///< while it is being taken
  Clock::time_point inventory_started_;
  Fd epoll_, signals_, mail_bell_;
  std::mutex mail_mutex_;
  std::vector<std::function<void()>> mail_;  ///< guarded by mail_mutex_
  bool is_mail_closed_ = false;              ///< guarded by mail_mutex_
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
  struct TenantUsage {
    Usage usage;
    Usage::Totals before;  ///< of sessions that are over
  };
  std::map<std::string, TenantUsage> usage_;  ///< of tenants that have had sessions
  std::deque<WorkerProcess> idle_;
  std::uint64_t next_session_ = 1;
  std::uint64_t instance_ = 0;  ///< random: tells this process from its predecessor
  enum class Phase { kServing, kDraining, kEnding } phase_ = Phase::kServing;
  Clock::time_point phase_ends_ = Clock::time_point::max();
  std::unique_ptr<turns::TurnServer> turns_;     ///< last: its thread posts
  std::unique_ptr<ProcessWatch> process_watch_;  ///< its thread posts, too; null: workers measure
};

}  // namespace sluice::server
