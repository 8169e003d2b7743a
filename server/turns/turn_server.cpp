#include "server/turns/turn_server.h"

#include "common/log.h"
#include "server/turns/page_ports.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace sluice::server::turns {
namespace {

constexpr std::uint64_t kWakeKey = 0, kTimerKey = ~std::uint64_t{0};
/// It looks at least this often, and is taken for dead after so many times that.
constexpr Duration kPulse = std::chrono::milliseconds(500);
constexpr int kDeadPulses = 6;
/// What a tenant owes is not forgotten because it leaves and comes again at once.
constexpr Duration kLinger = scheduler::Tags::kDebtMax;
constexpr Time kGone{0};  ///< as leaves_at
/// Turns are short: whoever hands them over should not wait for a core itself.
constexpr int kNice = -15;

Time now() {
  return Time(now_ns());
}

}  // namespace

struct TurnServer::Session {
  TenantId tenant = 0;
  double limit = 1;
  Mapped<Grants> grants;
  Mapped<Uses> uses;
  Fd bell;
  std::vector<std::unique_ptr<PagePort>> ports;  ///< by device
  std::vector<std::unique_ptr<PageCopyPort>> copy_ports;
};

TurnServer::TurnServer(std::string policy, TurnOptions options, Overrun on_overrun)
    : policy_(std::move(policy)), options_(options), on_overrun_(std::move(on_overrun)) {}

Result<std::unique_ptr<TurnServer>> TurnServer::start(const std::string& policy,
                                                      TurnOptions options, Overrun on_overrun) {
  std::unique_ptr<TurnServer> server(new TurnServer(policy, options, std::move(on_overrun)));
  SLUICE_CHECK(server->open());
  server->thread_ = std::thread([raw = server.get()] { raw->serve(); });
  return server;
}

TurnServer::~TurnServer() {
  stops_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
}

Status TurnServer::open() {
  if (scheduler::make_policy(policy_) == nullptr)
    return fail(ErrorCode::kInvalidArgument, "no policy is called \"" + policy_ + "\"");
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  timer_ = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeKey;
  bool is_open = epoll_.valid() && timer_.valid() && wake_.valid() &&
                 ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0;
  event.data.u64 = kTimerKey;
  is_open = is_open && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &event) == 0;
  looked_at_ns_ = now_ns();
  if (!is_open) return fail(system_error("starting the turns", errno));
  return {};
}

void TurnServer::wake() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));
}

DeviceTurns& TurnServer::device(std::size_t index, Time at) {
  while (devices_.size() <= index) {
    devices_.push_back(
        std::make_unique<DeviceTurns>(scheduler::make_policy(policy_), options_,
                                      [this](SeatId seat, Duration late, bool is_final) {
                                        overruns_.emplace_back([this, seat, late, is_final] {
                                          if (on_overrun_) on_overrun_(seat, late, is_final);
                                        });
                                      }));
    for (const auto& [id, tenant] : tenants_)
      if (tenant.leaves_at != kGone) devices_.back()->set_share(id, tenant.share, at);
  }
  return *devices_[index];
}

CopyQueue& TurnServer::copies(unsigned index, Time at) {
  const auto [queue, is_new] = copies_.try_emplace(index);
  if (!is_new) return queue->second;
  for (const auto& [id, tenant] : tenants_)
    if (tenant.leaves_at != kGone) queue->second.set_weight(id, tenant.share.weight, at);
  return queue->second;
}

void TurnServer::share(TenantId id, const scheduler::Share& share) {
  tenants_.at(id).share = share;
  for (auto& each : devices_) each->set_share(id, share, now());
  for (auto& [index, each] : copies_) each.set_weight(id, share.weight, now());
}

void TurnServer::set_share(const std::string& tenant, const scheduler::Share& wanted) {
  const std::lock_guard lock(mutex_);
  const auto known = ids_.find(tenant);
  if (known == ids_.end() || tenants_.at(known->second).leaves_at == kGone) return;
  if (tenants_.at(known->second).share == wanted) return;
  share(known->second, wanted);
  wake();
}

Result<Seat> TurnServer::attach(std::uint64_t id, const std::string& tenant,
                                const scheduler::Share& wanted, double limit) {
  auto session = std::make_unique<Session>();
  SLUICE_TRY(session->grants, make_grants());
  SLUICE_TRY(session->uses, make_uses());
  session->limit = limit;
  session->bell = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!session->bell.valid()) return fail(system_error("making a bell", errno));
  const Seat seat{session->grants.fd(), session->uses.fd(), session->bell.get()};
  const std::lock_guard lock(mutex_);
  session->tenant = ids_.try_emplace(tenant, ids_.size() + 1).first->second;
  Tenant& owner = tenants_[session->tenant];
  ++owner.sessions;
  owner.leaves_at = Time::max();
  share(session->tenant, wanted);
  sessions_[id] = std::move(session);
  return seat;
}

void TurnServer::seat(std::uint64_t id, Session& session, unsigned index) {
  session.ports.push_back(
      std::make_unique<PagePort>(session.grants->devices[index], session.uses->devices[index]));
  device(index, now()).attach(id, session.tenant, session.ports.back().get(), session.limit);
  for (const Way way : {Way::kUpload, Way::kDownload}) {
    session.copy_ports.push_back(std::make_unique<PageCopyPort>(
        *session.grants.get(), *session.uses.get(), copy_queue(way, index)));
    PageCopyPort* const port = session.copy_ports.back().get();
    copies(port->index(), now()).attach(id, session.tenant, port, now());
  }
}

void TurnServer::set_device_count(std::uint64_t id, std::size_t count) {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || !found->second->ports.empty()) return;
  Session& session = *found->second;
  for (unsigned i = 0; i < std::min<std::size_t>(count, kDevicesMax); ++i) seat(id, session, i);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, session.bell.get(), &event) != 0)
    SLUICE_LOG_ERROR("turns", "session={} cannot be heard and gets no turns: error {}", id, errno);
}

void TurnServer::detach(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  for (std::size_t i = 0; i < found->second->ports.size(); ++i) devices_[i]->detach(id, now());
  for (const auto& port : found->second->copy_ports) copies_.at(port->index()).detach(id, now());
  Tenant& owner = tenants_.at(found->second->tenant);
  if (--owner.sessions == 0) owner.leaves_at = now() + kLinger;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second->bell.get(), nullptr);
  sessions_.erase(found);
  wake();
}

/// Those who left a while ago: others' shares no longer depend on them.
void TurnServer::forget_tenants() {
  for (auto& [id, tenant] : tenants_) {
    if (tenant.leaves_at == kGone || tenant.leaves_at > now()) continue;
    tenant.before = time_of(id, tenant);
    tenant.leaves_at = kGone;
    for (auto& each : devices_) each->remove_tenant(id, now());
    for (auto& [index, each] : copies_) each.remove_tenant(id, now());
  }
}

TenantTime TurnServer::time_of(TenantId id, const Tenant& tenant) const {
  TenantTime sum = tenant.before;
  if (tenant.leaves_at == kGone) return sum;
  sum.served.resize(devices_.size());
  for (std::size_t device = 0; device < devices_.size(); ++device) {
    const scheduler::Account account = devices_[device]->account(id);
    sum.served[device] += account.served;
    for (std::size_t i = 0; i < sum.held.size(); ++i) sum.held[i] += account.held[i];
  }
  return sum;
}

TenantTime TurnServer::time_of(const std::string& tenant) const {
  const std::lock_guard lock(mutex_);
  const auto known = ids_.find(tenant);
  return known != ids_.end() ? time_of(known->second, tenants_.at(known->second)) : TenantTime{};
}

std::vector<Duration> TurnServer::busy_of(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(id);
  std::vector<Duration> out;
  if (found == sessions_.end()) return out;
  // Nobody has computed for longer than the machine runs.
  for (const auto& port : found->second->ports)
    out.push_back(std::clamp(port->busy(now()), Duration(0), Duration(now())));
  return out;
}

bool TurnServer::is_alive() const {
  return now() - Time(looked_at_ns_.load()) < kDeadPulses * kPulse;
}

void TurnServer::look_at(std::uint64_t id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  std::uint64_t rings = 0;
  static_cast<void>(!::read(found->second->bell.get(), &rings, sizeof rings));
  for (std::size_t i = 0; i < found->second->ports.size(); ++i) devices_[i]->look(id, now());
  for (const auto& port : found->second->copy_ports) copies_.at(port->index()).look();
}

void TurnServer::set_timer(Time at) {
  const Time latest = now() + kPulse;
  const Time when = std::min(at, latest);
  itimerspec spec{};
  spec.it_value.tv_sec = when.count() / 1'000'000'000;
  spec.it_value.tv_nsec = when.count() % 1'000'000'000;
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void TurnServer::wait_for_events() {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
  looked_at_ns_ = now_ns();
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t key = events[static_cast<std::size_t>(i)].data.u64;
    std::uint64_t value = 0;
    if (key == kWakeKey)
      static_cast<void>(!::read(wake_.get(), &value, sizeof value));
    else if (key != kTimerKey)
      look_at(key);
  }
}

void TurnServer::serve() {
  ::pthread_setname_np(::pthread_self(), "sluice-turns");
  // Without the right to it, it is a thread like any other.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
  while (!stops_) {
    std::vector<std::function<void()>> overruns;
    {
      const std::lock_guard lock(mutex_);
      forget_tenants();
      Time next = Time::max();
      for (const auto& each : devices_) {
        each->run(now());
        next = std::min(next, each->next_look(now()));
      }
      for (auto& [index, each] : copies_) {
        each.run(now());
        next = std::min(next, each.next_look());
      }
      overruns.swap(overruns_);
      set_timer(next);
    }
    for (const auto& tell : overruns) tell();
    wait_for_events();
  }
}

}  // namespace sluice::server::turns
