#include "server/worker/broker_ledger.h"

#include "common/log.h"

#include <chrono>

namespace sluice::server {
namespace {
using namespace std::chrono_literals;
constexpr auto kAnswerTime = 5s;
constexpr auto kReportInterval = 500ms;

bool is_same(const link::Stats& a, const link::Stats& b) {
  return a.calls == b.calls && a.bytes_in == b.bytes_in && a.bytes_out == b.bytes_out &&
         a.gpu_us == b.gpu_us;
}
}  // namespace

void BrokerLedger::start(std::function<link::Stats()> stats, std::function<void()> on_broker_gone) {
  stats_ = std::move(stats);
  on_broker_gone_ = std::move(on_broker_gone);
  reader_ = std::thread([this] { read(); });
  reader_.detach();  // blocked in receive_message until the process ends
  reporter_ = std::thread([this] { report(); });
}

void BrokerLedger::read() {
  for (;;) {
    auto received = link::receive_message(fd_);
    if (!received) {
      {
        const std::lock_guard lock(mutex_);
        is_gone_ = true;
        changed_.notify_all();
      }
      on_broker_gone_();
      return;
    }
    const auto* answer = std::get_if<link::Answer>(&received->message);
    if (answer == nullptr) continue;
    const std::lock_guard lock(mutex_);
    answer_ = *answer;
    has_answer_ = true;
    changed_.notify_all();
  }
}

void BrokerLedger::report() {
  link::Stats sent;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kReportInterval, [&] { return is_over_; })) {
    lock.unlock();
    const link::Stats now = stats_();
    if (!is_same(now, sent)) static_cast<void>(link::send_message(fd_, now));
    sent = now;
    lock.lock();
  }
}

void BrokerLedger::finish() {
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    is_over_ = true;
    changed_.notify_all();
  }
  if (reporter_.joinable()) reporter_.join();
  if (stats_) static_cast<void>(link::send_message(fd_, stats_()));
}

LedgerLink::Usage BrokerLedger::ask(const link::Message& question) {
  const std::lock_guard one(ask_mutex_);
  {
    const std::lock_guard lock(mutex_);
    has_answer_ = false;
  }
  if (!link::send_message(fd_, question)) return {};
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kAnswerTime, [&] { return has_answer_ || is_gone_; }) ||
      !has_answer_) {
    SLUICE_LOG_ERROR("quota", "the broker does not answer: no memory is granted");
    return {};
  }
  return {answer_.is_granted, answer_.used_bytes, answer_.limit_bytes};
}

LedgerLink::Usage BrokerLedger::charge(std::uint32_t device, std::uint64_t bytes) {
  return ask(link::Charge{device, bytes});
}
LedgerLink::Usage BrokerLedger::query(std::uint32_t device) {
  return ask(link::QueryMemory{device});
}
void BrokerLedger::refund(std::uint32_t device, std::uint64_t bytes) {
  static_cast<void>(link::send_message(fd_, link::Refund{device, bytes}));
}

}  // namespace sluice::server
