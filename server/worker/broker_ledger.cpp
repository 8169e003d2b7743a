#include "server/worker/broker_ledger.h"

#include "common/log.h"

#include <chrono>

namespace sluice::server {
namespace {
using namespace std::chrono_literals;
constexpr auto kReportInterval = 500ms;
constexpr auto kSilenceMax = 1s;

bool is_same(const link::Stats& a, const link::Stats& b) {
  return a.calls == b.calls && a.bytes_in == b.bytes_in && a.bytes_out == b.bytes_out &&
         a.gpu_us == b.gpu_us && a.pending_calls == b.pending_calls;
}
}  // namespace

void BrokerLedger::start(std::function<link::Stats()> stats, std::function<void()> on_broker_gone,
                         OnResume on_resume) {
  on_resume_ = std::move(on_resume);
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
    if (const auto* answer = std::get_if<link::Answer>(&received->message)) take_answer(*answer);
    if (const auto* resume = std::get_if<link::ResumeData>(&received->message))
      take_resume(*received, *resume);
    if (std::holds_alternative<link::Recall>(received->message) && on_recall_) on_recall_();
    if (std::holds_alternative<link::Stop>(received->message)) {
      finish();
      return on_broker_gone_();
    }
  }
}

void BrokerLedger::take_resume(link::Received& received, const link::ResumeData& resume) {
  if (on_resume_) on_resume_(std::move(received.passed), resume);
  if (resume.is_encrypted) static_cast<void>(link::send_message(fd_, link::ResumeTaken{}));
}

void BrokerLedger::take_answer(const link::Answer& answer) {
  link::Charge unwanted;
  {
    const std::lock_guard lock(mutex_);
    if (line_.empty()) return;
    Question& oldest = *line_.front();
    oldest.answer = {answer.is_granted, answer.used_bytes, answer.limit_bytes};
    oldest.is_answered = true;
    if (oldest.is_abandoned && answer.is_granted) unwanted = oldest.charge;
    line_.pop_front();
    changed_.notify_all();
  }
  // Granted too late: nobody has it.
  if (unwanted.bytes > 0) refund(unwanted.device, unwanted.kind, unwanted.bytes);
}

void BrokerLedger::report() {
  link::Stats sent;
  auto sent_at = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kReportInterval, [&] { return is_over_; })) {
    lock.unlock();
    if (before_report_) before_report_();
    const link::Stats now = stats_();
    if (const auto time = std::chrono::steady_clock::now();
        !is_same(now, sent) || time - sent_at >= kSilenceMax) {
      static_cast<void>(link::send_message(fd_, now));
      sent = now;
      sent_at = time;
    }
    lock.lock();
  }
}

void BrokerLedger::finish() {
  {
    std::unique_lock lock(mutex_);
    if (is_over_) return changed_.wait(lock, [&] { return is_finished_; });
    is_over_ = true;
    changed_.notify_all();
  }
  if (reporter_.joinable()) reporter_.join();
  if (stats_) static_cast<void>(link::send_message(fd_, stats_()));
  const std::lock_guard lock(mutex_);
  is_finished_ = true;
  changed_.notify_all();
}

LedgerLink::Usage BrokerLedger::ask(const link::Message& message, const link::Charge& charge) {
  auto question = std::make_shared<Question>();
  question->charge = charge;
  {
    const std::lock_guard one(send_mutex_);
    {
      const std::lock_guard lock(mutex_);
      if (is_gone_) return {};
      line_.push_back(question);
    }
    if (!link::send_message(fd_, message)) return {};  // the reader sees the same and ends us
  }
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, answer_time_, [&] { return question->is_answered || is_gone_; });
  if (question->is_answered) return question->answer;
  question->is_abandoned = true;
  SLUICE_LOG_ERROR("quota", "the broker does not answer: no memory is granted");
  return {};
}

LedgerLink::Usage BrokerLedger::charge(std::uint32_t device, MemoryKind kind, std::uint64_t bytes) {
  const link::Charge charge{device, bytes, kind};
  return ask(charge, charge);
}
LedgerLink::Usage BrokerLedger::query(std::uint32_t device) {
  return ask(link::QueryMemory{device}, {});
}
void BrokerLedger::refund(std::uint32_t device, MemoryKind kind, std::uint64_t bytes) {
  static_cast<void>(link::send_message(fd_, link::Refund{device, bytes, kind}));
}

}  // namespace sluice::server
