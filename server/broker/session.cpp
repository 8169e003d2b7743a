// Sessions: from an authenticated client to a worker, and until that has ended.
#include "server/broker/session.h"

#include "common/format.h"
#include "common/log.h"

#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>

namespace sluice::server {
namespace {
/// A worker that is told to stop has last_report so many times over.
constexpr int kStopReports = 4;
}  // namespace

void Broker::prestart() {
  while (idle_.size() < options_.config.prestart_workers) {
    auto worker = start_worker(options_.worker_executable);
    if (!worker) return SLUICE_LOG_ERROR("session", "{}", worker.error().message);
    const pid_t pid = worker->pid;
    watch(worker->pidfd.get(), [this, pid] { on_idle_exit(pid); });
    idle_.push_back(std::move(*worker));
  }
}

/// A worker that ends before it was told anything is broken: the next session starts its own and
/// says what is wrong.
void Broker::on_idle_exit(pid_t pid) {
  const auto found = std::find_if(idle_.begin(), idle_.end(),
                                  [&](const WorkerProcess& w) { return w.pid == pid; });
  if (found == idle_.end()) return;
  SLUICE_LOG_ERROR("session", "a waiting worker ended; is {} complete?",
                   options_.worker_executable);
  unwatch(found->pidfd.get());
  ::waitpid(pid, nullptr, 0);
  idle_.erase(found);
}

void Broker::start_session(const std::shared_ptr<Client>& client, const config::Tenant& tenant,
                           const wire::Hello& hello) {
  auto session = std::make_shared<Session>();
  session->id = next_session_++;
  session->tenant = tenant;
  session->hello = hello;
  session->hello.token.clear();  // checked; nothing keeps it
  session->limits = parse_client_limits(hello.limits).value_or(ClientLimits{});  // checked, too
  session->started = session->last_call = session->last_report = Clock::now();
  session->life_line = client;
  session->from = client->from;
  session->is_encrypted = client->tls != nullptr;
  if (auto random = config::fill_random(session->key); !random)
    return refuse(client, wire::RefusalCode::kServer, random.error().message);
  if (!idle_.empty()) {
    session->worker = std::move(idle_.front());
    idle_.pop_front();
    unwatch(session->worker.pidfd.get());
  } else {
    auto worker = start_worker(options_.worker_executable);
    if (!worker) return refuse(client, wire::RefusalCode::kServer, worker.error().message);
    session->worker = std::move(*worker);
  }
  link::Start start;
  start.driver_path = options_.config.driver;
  start.session_id = session->id;
  start.tenant = tenant.name;
  start.memory_limit_bytes = {tenant.memory_limit_bytes};
  start.session_key = session->key;
  start.uses_io_uring = options_.config.io_uring == "on";
  client->session = session;
  watch_silence(client->fd.get());
  sessions_[session->id] = session;
  watch(session->worker.link.get(), [this, session] { on_link(session); });
  watch(session->worker.pidfd.get(), [this, session] { on_worker_exit(session); });
  if (const Status given = give_turns(*session); !given)
    SLUICE_LOG_ERROR("session", "session={}: {}", session->id, given.error().message);
  else  // if the worker is gone already, its exit is seen next
    static_cast<void>(link::send_message(session->worker.link.get(), start));
  at(Clock::now() + options_.times.start, [this, weak = std::weak_ptr<Session>(session)] {
    const auto late = weak.lock();
    if (late == nullptr || late->is_welcome || late->is_ending) return;
    if (const auto waiting = late->life_line.lock(); waiting != nullptr && waiting->fd.valid()) {
      waiting->session = nullptr;
      refuse(waiting, wire::RefusalCode::kServer,
             "the worker did not load the driver in time; the server's log says more");
    }
    end_session(late);
  });
  prestart();
}

const config::Tenant& Broker::tenant_of(const Session& session) const {
  const config::Tenant* now = tenants_.find(session.tenant.name);
  return now != nullptr ? *now : session.tenant;
}

std::uint64_t Broker::limit_of(const Session& session, std::uint32_t device) const {
  const std::uint64_t hardware =
      device < session.device_bytes.size() ? session.device_bytes[device] : 0;
  const std::uint64_t slice = tenant_of(session).memory_limit_bytes;
  return slice != 0 ? std::min(slice, hardware) : hardware;
}

void Broker::on_link(const std::shared_ptr<Session>& session) {
  auto received = link::receive_message(session->worker.link.get());
  if (!received && received.error().code == ErrorCode::kTimeout) return;
  if (!received) {
    unwatch(session->worker.link.get());  // the exit follows
    if (received.error().code == ErrorCode::kPeerClosed) return;
    return kill_worker(*session, received.error().message);
  }
  if (auto* ready = std::get_if<link::Ready>(&received->message)) {
    on_ready(session, *ready);
  } else if (const auto* failed = std::get_if<link::Failed>(&received->message)) {
    if (const auto client = session->life_line.lock()) {
      client->session = nullptr;
      if (client->fd.valid()) refuse(client, wire::RefusalCode::kServer, failed->message);
    }
    end_session(session);
  } else if (const auto* data = std::get_if<link::DataReady>(&received->message)) {
    session->is_attached = true;
    session->is_resumable = data->is_resumable;
  } else if (std::holds_alternative<link::ResumeTaken>(received->message)) {
    session->is_candidate_under_way = false;
    pass_candidate(*session);
  } else if (const auto* stats = std::get_if<link::Stats>(&received->message)) {
    on_stats(*session, *stats);
  } else {
    on_memory(session, received->message);
  }
}

void Broker::on_stats(Session& session, const link::Stats& stats) {
  const auto now = Clock::now();
  if (stats.calls != session.stats.calls || stats.pending_calls > 0) session.last_call = now;
  session.last_report = now;
  session.is_warned = false;
  session.stats = stats;
}

void Broker::on_ready(const std::shared_ptr<Session>& session, link::Ready& ready) {
  const auto client = session->life_line.lock();
  if (client == nullptr || !client->fd.valid() || session->is_welcome || session->is_ending) return;
  note_devices(ready);
  watch_processes(ready);
  for (wire::DeviceRecord& device : ready.devices) {
    session->device_bytes.push_back(device.total_bytes);
    const auto index = static_cast<std::uint32_t>(session->device_bytes.size() - 1);
    device.total_bytes = session->limits.lowered(limit_of(*session, index), index);
  }
  wire::Welcome welcome = welcome_of(session->hello);
  welcome.session_id = session->id;
  welcome.session_key = session->key;
  welcome.driver_version = std::min(ready.driver_version, session->hello.cuda_version);
  welcome.worker_pid = session->worker.pid;
  welcome.devices = std::move(ready.devices);
  session->is_welcome = true;
  turns_->set_device_count(session->id, session->device_bytes.size());
  session->usage.note(Clock::now(), {});
  usage_[session->tenant.name].usage.note(Clock::now(), busy_of_tenant(session->tenant.name));
  meter_tenant(session->tenant.name);
  session->last_report = Clock::now();
  SLUICE_LOG_INFO("session",
                  "session opened session={} tenant={} client={}:{} program={} worker={} "
                  "from={} encrypted={}",
                  session->id, session->tenant.name, session->hello.host, session->hello.pid,
                  session->hello.program, session->worker.pid, session->from,
                  session->is_encrypted);
  if (!send(*client, welcome)) {
    close_client(client);
    return end_session(session);
  }
  at(Clock::now() + options_.times.attach, [this, weak = std::weak_ptr<Session>(session)] {
    const auto late = weak.lock();
    if (late == nullptr || late->is_attached || late->is_ending) return;
    end_session(late, wire::EndingCode::kServer, "the data connection did not come in time");
  });
}

void Broker::kill_worker(const Session& session, const std::string& why) {
  SLUICE_LOG_ERROR("session", "session={} tenant={}: its worker is killed: {}", session.id,
                   session.tenant.name, why);
  ::kill(session.worker.pid, SIGKILL);
}

void Broker::kill_later(const std::shared_ptr<Session>& session, std::chrono::milliseconds time) {
  at(Clock::now() + time, [weak = std::weak_ptr<Session>(session)] {
    if (const auto late = weak.lock()) ::kill(late->worker.pid, SIGKILL);
  });
}

void Broker::end_session(const std::shared_ptr<Session>& session) {
  if (session->is_ending) return;
  session->is_ending = true;
  kill_later(session,
             session->is_attached ? options_.times.last_report : std::chrono::milliseconds(0));
}

void Broker::end_session(const std::shared_ptr<Session>& session, wire::EndingCode code,
                         const std::string& why) {
  if (session->is_ending) return;
  SLUICE_LOG_WARN("session", "session={} tenant={} is ended: {}", session->id, session->tenant.name,
                  why);
  tell(*session, {code, why, 0});
  session->is_ending = true;
  // Nothing hurries as it does behind a client that is gone.
  kill_later(session, session->is_attached ? kStopReports * options_.times.last_report
                                           : std::chrono::milliseconds(0));
  if (session->is_attached)
    static_cast<void>(link::send_message(session->worker.link.get(), link::Stop{}));
}

void Broker::on_worker_exit(const std::shared_ptr<Session>& session) {
  // Its last figures may still lie in the link.
  while (handlers_.contains(session->worker.link.get())) on_link(session);
  int status = 0;
  ::waitpid(session->worker.pid, &status, 0);
  unwatch(session->worker.pidfd.get());
  ledger_.drop(session->id);
  on_recalled(*session);
  if (const auto used = turns_->busy_of(session->id); !used.empty())
    add_to(usage_[session->tenant.name].before, used);
  turns_->detach(session->id);
  sessions_.erase(session->id);
  meter_tenant(session->tenant.name);
  if (status != 0 && !session->is_ending) {
    const std::string how = WIFSIGNALED(status) ? format("died of signal {}", WTERMSIG(status))
                                                : format("failed ({})", WEXITSTATUS(status));
    SLUICE_LOG_WARN("session", "the worker of session={} tenant={} {}", session->id,
                    session->tenant.name, how);
    tell(*session, {wire::EndingCode::kWorker, "the worker process " + how, 0});
  }
  if (const auto client = session->life_line.lock()) {
    client->session = nullptr;
    if (!session->is_welcome && client->fd.valid())
      refuse(client, wire::RefusalCode::kServer,
             "the worker process ended while it started; the server's log says why");
    else
      close_client(client);  // the client sees the end of its life line
  }
  report(*session);
}

void Broker::report(const Session& session) {
  const double seconds = std::chrono::duration<double>(Clock::now() - session.started).count();
  const link::Stats& s = session.stats;
  SLUICE_LOG_INFO("session",
                  "session closed session={} tenant={} calls={} waits={} bytes_in={} bytes_out={} "
                  "gpu_us={} memory_peak_bytes={} seconds={:.3f}",
                  session.id, session.tenant.name, s.calls, s.waits, s.bytes_in, s.bytes_out,
                  s.gpu_us, s.memory_peak_bytes, seconds);
  if (options_.config.stats_file.empty()) return;
  const nlohmann::json line = {
      {"session", session.id},    {"tenant", session.tenant.name},
      {"pid", session.hello.pid}, {"program", session.hello.program},
      {"calls", s.calls},         {"waits", s.waits},
      {"bytes_in", s.bytes_in},   {"bytes_out", s.bytes_out},
      {"gpu_us", s.gpu_us},       {"memory_peak_bytes", s.memory_peak_bytes},
      {"seconds", seconds}};
  std::ofstream(options_.config.stats_file, std::ios::app)
      << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

}  // namespace sluice::server
