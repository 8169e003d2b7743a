#include "tests/turns/node.h"

#include <algorithm>

namespace sluice::test {

struct Node::Session final : server::turns::Port {
  explicit Session(Node& owner) : node(owner) {}

  void open(Time end) override {
    until = end;
    if (is_open) return;
    is_open = true;
    ++opened;
    if (has_kernel && !computes) node.at(node.now(), [this] { node.next_block(id); });
  }
  void close() override {
    is_open = false;
    ++closed;
  }
  void set_contended(bool is_it) override { is_contended = is_it; }
  void set_window(Duration) override {}  // it is held between blocks
  [[nodiscard]] bool is_running() const override { return computes; }
  [[nodiscard]] bool has_work() const override { return has_kernel; }
  [[nodiscard]] Duration busy(Time now) const override {
    return done + (computes ? now - since : Duration(0));
  }
  [[nodiscard]] bool may_compute() const { return is_open && node.now() < until; }

  Node& node;
  SeatId id = 0;
  Program program;
  bool is_open = false, is_contended = false, has_kernel = false, computes = false;
  bool has_begun = false;  ///< the kernel
  Time until{}, since{}, issued{};
  Duration done{0}, left{0};
  unsigned opened = 0, closed = 0;
  std::vector<std::pair<Time, Time>> ran;
  std::vector<Duration> waits;
};

Node::Node(std::string_view policy, TurnOptions options)
    : turns_(scheduler::make_policy(policy), options,
             [this](SeatId seat, Duration late, bool is_final) {
               overruns.push_back({seat, late, is_final});
             }) {}
Node::~Node() = default;

void Node::tenant(TenantId tenant, const Share& share) {
  turns_.set_share(tenant, share, now_);
}

void Node::session(SeatId seat, TenantId tenant, const Program& program) {
  auto session = std::make_unique<Session>(*this);
  session->id = seat;
  session->program = program;
  turns_.attach(seat, tenant, session.get(), program.limit);
  sessions_[seat] = std::move(session);
  at(std::max(program.from, now_), [this, seat] { begin_kernel(seat); });
}

void Node::kill(SeatId seat) {
  turns_.detach(seat, now_);
  sessions_.at(seat)->program.until = now_;
  sessions_.at(seat)->has_kernel = sessions_.at(seat)->computes = false;
  serve();
}

void Node::begin_kernel(SeatId seat) {
  Session& s = *sessions_.at(seat);
  if (now_ >= s.program.until) return;
  s.has_kernel = true;
  s.has_begun = false;
  s.issued = now_;
  s.left = s.program.kernel;
  if (s.may_compute()) return next_block(seat);
  turns_.look(seat, now_);
  serve();
}

void Node::next_block(SeatId seat) {
  Session& s = *sessions_.at(seat);
  if (!s.has_kernel || s.computes || !s.may_compute()) return;
  if (!s.has_begun) s.waits.push_back(now_ - s.issued);
  s.has_begun = s.computes = true;
  s.since = now_;
  const auto computing = std::count_if(sessions_.begin(), sessions_.end(),
                                       [](const auto& one) { return one.second->computes; });
  has_overlapped_ |= computing > 1;
  at(now_ + std::min(s.program.block, s.left),
     [this, seat, began = now_] { end_block(seat, began); });
}

void Node::end_block(SeatId seat, Time began) {
  Session& s = *sessions_.at(seat);
  if (!s.computes) return;  // killed
  s.computes = false;
  s.done += now_ - began;
  s.left -= now_ - began;
  s.ran.emplace_back(began, now_);
  const bool is_over = s.left <= 0ns || now_ >= s.program.until;
  if (is_over) {
    s.has_kernel = false;
    at(now_ + s.program.pause, [this, seat] { begin_kernel(seat); });
    // A program that does not wait has issued the next one by now.
    if (s.program.pause == 0ns && now_ < s.program.until) s.has_kernel = true;
  }
  if (s.may_compute() && s.has_kernel && !is_over) return next_block(seat);
  if (!s.is_open || (s.is_contended && !s.has_kernel)) {
    turns_.look(seat, now_);
    serve();
  }
}

void Node::serve() {
  turns_.run(now_);
  const Time next = turns_.next_look(now_);
  if (next == Time::max() || (look_at_ > now_ && look_at_ <= next)) return;
  look_at_ = std::max(next, now_ + 1ns);
  at(look_at_, [this] { serve(); });
}

double Node::use(SeatId seat, Time from, Time to) const {
  Duration sum{0};
  for (const auto& [begin, end] : sessions_.at(seat)->ran)
    sum += std::max(Duration(0), std::min(end, to) - std::max(begin, from));
  return std::chrono::duration<double>(sum) / std::chrono::duration<double>(to - from);
}

double Node::most(SeatId seat, Time from, Time to, Duration window) const {
  double found = 0;
  for (Time at = from; at + window <= to; at += window)
    found = std::max(found, use(seat, at, at + window));
  return found;
}

unsigned Node::opened(SeatId seat) const {
  return sessions_.at(seat)->opened;
}
unsigned Node::closed(SeatId seat) const {
  return sessions_.at(seat)->closed;
}

std::vector<Duration> Node::waits(SeatId seat) const {
  std::vector<Duration> sorted = sessions_.at(seat)->waits;
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace sluice::test
