#include "scheduler/simulation/simulation.h"

#include <algorithm>

namespace sluice::scheduler::simulation {
namespace {

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

Simulation::Simulation(std::string_view policy, Duration notice, DispatcherOptions options)
    : notice_(notice) {
  if (policy != kNative) dispatcher_ = std::make_unique<Dispatcher>(make_policy(policy), options);
}

void Simulation::add(TenantId tenant, const Share& share, const Load& load) {
  Program& program = programs_[tenant];
  program.load = load;
  program.random.seed(static_cast<unsigned>(tenant) * 7919 + 1);
  if (!is_native()) dispatcher_->set_share(tenant, share, now_);
  at(std::max(load.from, now_), [this, tenant] {
    const Load& mine = programs_[tenant].load;
    if (mine.period > 0ns) return begin_burst(tenant);
    for (unsigned i = 0; i < mine.depth; ++i) issue(tenant);
    grant();
  });
}

void Simulation::begin_burst(TenantId tenant) {
  Program& program = programs_[tenant];
  if (now_ >= program.load.until) return;
  at(now_ + program.load.period, [this, tenant] { begin_burst(tenant); });
  if (program.burst_left > 0) return;  // the one before is not over
  program.burst_from = now_;
  program.burst_left = program.load.depth;
  for (unsigned i = 0; i < program.load.depth; ++i) issue(tenant);
  grant();
}

void Simulation::issue(TenantId tenant) {
  Program& program = programs_[tenant];
  if (now_ >= program.load.until) return;
  std::uniform_int_distribution<Duration::rep> length(program.load.shortest.count(),
                                                      program.load.longest.count());
  const Ticket ticket = ++last_ticket_;
  commands_[ticket] = {tenant, Duration(length(program.random)), now_};
  if (is_native()) return granted_.push(ticket);
  dispatcher_->enqueue(tenant, ticket, model_.estimate(tenant), now_);
}

void Simulation::grant() {
  if (is_native()) return start_next();
  for (const Ticket ticket : dispatcher_->dispatch(now_)) granted_.push(ticket);
  start_next();
  look_again();
}

void Simulation::look_again() {
  const Time next = dispatcher_->next_look(now_);
  if (next == Time::max() || (look_at_ > now_ && look_at_ <= next)) return;
  look_at_ = std::max(next, now_ + 1ns);
  at(look_at_, [this] { grant(); });
}

void Simulation::start_next() {
  if (is_busy_ || granted_.empty()) return;
  is_busy_ = true;
  const Ticket ticket = granted_.front();
  granted_.pop();
  const Command& command = commands_.at(ticket);
  Program& program = programs_[command.tenant];
  program.longest_wait = std::max(program.longest_wait, now_ - command.issued);
  program.ran.emplace_back(now_, now_ + command.length);
  at(now_ + command.length, [this, ticket] {
    is_busy_ = false;
    at(now_ + notice_, [this, ticket] { on_end(ticket); });
    start_next();
  });
}

void Simulation::on_end(Ticket ticket) {
  const Command command = commands_.at(ticket);
  commands_.erase(ticket);
  model_.learn(command.tenant, command.length);
  if (!is_native()) dispatcher_->complete(ticket, command.length, now_);
  Program& program = programs_[command.tenant];
  if (program.load.period == 0ns) {
    issue(command.tenant);
  } else if (--program.burst_left == 0) {
    program.bursts.emplace_back(program.burst_from, now_ - program.burst_from);
  }
  grant();
}

double Simulation::use(TenantId tenant, Time from, Time to) const {
  const auto& ran = programs_.at(tenant).ran;
  auto at = std::lower_bound(ran.begin(), ran.end(), from,
                             [](const auto& run, Time when) { return run.second <= when; });
  Duration sum{0};
  for (; at != ran.end() && at->first < to; ++at)
    sum += std::min(at->second, to) - std::max(at->first, from);
  return seconds(sum) / seconds(to - from);
}

double Simulation::use(Time from, Time to) const {
  double sum = 0;
  for (const auto& [tenant, program] : programs_) sum += use(tenant, from, to);
  return sum;
}

double Simulation::most(TenantId tenant, Time from, Time to, Duration window) const {
  double found = 0;
  for (Time at = from; at + window <= to; at += window)
    found = std::max(found, use(tenant, at, at + window));
  return found;
}

double Simulation::least(TenantId tenant, Time from, Time to, Duration window) const {
  double found = 1;
  for (Time at = from; at + window <= to; at += window)
    found = std::min(found, use(tenant, at, at + window));
  return found;
}

std::vector<Duration> Simulation::burst_times(TenantId tenant, Time from) const {
  std::vector<Duration> out;
  for (const auto& [begin, length] : programs_.at(tenant).bursts)
    if (begin >= from) out.push_back(length);
  std::sort(out.begin(), out.end());
  return out;
}

Duration Simulation::longest_wait(TenantId tenant) const {
  return programs_.at(tenant).longest_wait;
}

}  // namespace sluice::scheduler::simulation
