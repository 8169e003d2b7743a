// The loop: events, timers, signals, mail from other threads, and the way to the end.
#include "server/broker/broker.h"

#include "common/duration.h"
#include "common/format.h"
#include "common/log.h"
#include "server/broker/session.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace sluice::server {
namespace {
/// What a worker gets beyond last_report before it is killed, and the kernel to tell us of it.
constexpr auto kExitTime = std::chrono::seconds(4);
constexpr int kEventsMax = 64;
}  // namespace

Broker::Broker(BrokerOptions options) : options_(std::move(options)) {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  mail_bell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

Broker::~Broker() {
  for (const auto& [id, session] : sessions_) ::kill(session->worker.pid, SIGKILL);
  for (const WorkerProcess& worker : idle_) ::kill(worker.pid, SIGKILL);
  if (inventory_worker_ != nullptr) ::kill(inventory_worker_->pid, SIGKILL);
  close_listeners();
}

void Broker::close_listeners() {
  for (const Listener& listener : listeners_) {
    unwatch(listener.fd.get());
    if (listener.address.kind == transport::Address::Kind::kUnix)
      ::unlink(listener.address.path.c_str());
  }
  listeners_.clear();
}

void Broker::watch(int fd, std::function<void()> on_readable) {
  const std::uint32_t generation = next_generation_++;
  handlers_[fd] = {generation, std::move(on_readable)};
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = std::uint64_t{generation} << 32 | static_cast<std::uint32_t>(fd);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Broker::unwatch(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  handlers_.erase(fd);
}

void Broker::at(Clock::time_point when, std::function<void()> what) {
  timers_.emplace(when, std::move(what));
}

int Broker::run_timers() {
  while (!timers_.empty() && timers_.begin()->first <= Clock::now()) {
    const auto what = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    what();
  }
  const auto next = timers_.empty() ? phase_ends_ : std::min(timers_.begin()->first, phase_ends_);
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

Status Broker::open() {
  SLUICE_CHECK(
      config::fill_random({reinterpret_cast<std::uint8_t*>(&instance_), sizeof instance_}));
  SLUICE_CHECK(open_state());
  SLUICE_TRY(tls_, tls_context_of(options_.config));
  SLUICE_CHECK(start_turns());
  for (const transport::Address& wanted : options_.config.listen) {
    SLUICE_TRY(Fd fd, transport::listen_socket(wanted, 0600));
    SLUICE_TRY(transport::Address bound, transport::bound_address(wanted, fd.get()));
    const int raw = fd.get();
    ::fcntl(raw, F_SETFL,
            ::fcntl(raw, F_GETFL) | O_NONBLOCK);  // a client may be gone before it is accepted
    listeners_.push_back({std::move(bound), std::move(fd)});
    watch(raw, [this, raw] { accept_on(raw); });
  }
  prestart();
  if (options_.takes_inventory) take_inventory();
  watch_sessions();
  keep_writing_usage();
  return {};
}

std::vector<std::string> Broker::addresses() const {
  std::vector<std::string> out;
  for (const Listener& listener : listeners_) out.push_back(listener.address.text());
  return out;
}

void Broker::post(std::function<void()> what) {
  const std::lock_guard lock(mail_mutex_);
  if (is_mail_closed_) return;
  mail_.push_back(std::move(what));
  const std::uint64_t one = 1;
  static_cast<void>(!::write(mail_bell_.get(), &one, sizeof one));  // full = it rings already
}

void Broker::stop() {
  post([this] { begin_stop(); });
}

void Broker::run_mail() {
  std::uint64_t rings = 0;
  static_cast<void>(!::read(mail_bell_.get(), &rings, sizeof rings));
  std::vector<std::function<void()>> mail;
  {
    const std::lock_guard lock(mail_mutex_);
    mail.swap(mail_);
  }
  for (const auto& what : mail) what();
}

void Broker::on_signal() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGHUP)
      static_cast<void>(reload());  // it has logged the outcome
    else
      begin_stop();
  }
}

void Broker::handle_events(int timeout_ms) {
  epoll_event events[kEventsMax];
  const int count = ::epoll_wait(epoll_.get(), events, kEventsMax, timeout_ms);
  for (int i = 0; i < count; ++i) {
    const auto found = handlers_.find(static_cast<int>(events[i].data.u64 & 0xFFFFFFFFu));
    if (found == handlers_.end() || found->second.generation != events[i].data.u64 >> 32) continue;
    const auto handler = found->second.on_readable;  // a copy: it may unwatch itself
    handler();
  }
}

Status Broker::run() {
  watch(signals_.get(), [this] { on_signal(); });
  watch(mail_bell_.get(), [this] { run_mail(); });
  for (;;) {
    const int timeout = run_timers();
    if (phase_ != Phase::kServing && sessions_.empty()) break;
    if (Clock::now() >= phase_ends_) {
      if (phase_ == Phase::kEnding) break;
      end_all();
      continue;
    }
    handle_events(timeout);
  }
  std::vector<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mail_mutex_);
    is_mail_closed_ = true;
    dropped.swap(mail_);
  }
  for (const auto& [id, session] : sessions_) report(*session);  // of these the last is unknown
  write_usage();
  return {};
}

/// First no new clients, and those that are there are told; then, or at once if there is no time
/// to drain, the end.
void Broker::begin_stop() {
  if (phase_ == Phase::kEnding) return;
  close_listeners();
  const auto time = options_.config.drain_timeout;
  if (phase_ == Phase::kDraining || time.count() == 0 || sessions_.empty()) return end_all();
  phase_ = Phase::kDraining;
  phase_ends_ = Clock::now() + time;
  SLUICE_LOG_INFO("session", "stopping: {} sessions have {} to end", sessions_.size(),
                  duration_text(time));
  for (const auto& [id, session] : sessions_)
    tell(*session, {wire::EndingCode::kServer,
                    format("the server stops; this session ends in {}", duration_text(time)),
                    static_cast<std::uint32_t>(time.count())});
}

void Broker::end_all() {
  SLUICE_LOG_INFO("session", "stopping: {} sessions end", sessions_.size());
  phase_ = Phase::kEnding;
  phase_ends_ = Clock::now() + options_.times.last_report + kExitTime;
  const auto sessions = sessions_;  // a copy: ending one may remove it
  for (const auto& [id, session] : sessions)
    end_session(session, wire::EndingCode::kServer, "the server stops");
}

}  // namespace sluice::server
