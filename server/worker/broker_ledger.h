// The ledger as seen over the link to the broker, and the worker's reports to it.
#pragma once

#include "server/link.h"
#include "server/worker/ledger_link.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace sluice::server {

/// Thread-safe. One thread reads the link: answers, a stop, and the end of the broker, which ends
/// the worker too.
class BrokerLedger final : public LedgerLink {
 public:
  /// A question that is not answered within `answer_time` is answered with no.
  explicit BrokerLedger(int link_fd,
                        std::chrono::milliseconds answer_time = std::chrono::seconds(5))
      : fd_(link_fd), answer_time_(answer_time) {}
  ~BrokerLedger() override { finish(); }
  BrokerLedger(const BrokerLedger&) = delete;
  BrokerLedger& operator=(const BrokerLedger&) = delete;

  /// Gets a connection that is to replace one for data, and which.
  using OnResume = std::function<void(Fd, const link::ResumeData&)>;
  /// `stats` is asked twice a second; `on_broker_gone` is called when the link is closed, or after
  /// the last statistics were sent because the broker said stop.
  void start(std::function<link::Stats()> stats, std::function<void()> on_broker_gone,
             OnResume on_resume = {});
  /// Before start(): called when the client shall give back memory that it keeps.
  void on_recall(std::function<void()> action) { on_recall_ = std::move(action); }
  /// Before start(): called twice a second, before the statistics.
  void before_report(std::function<void()> action) { before_report_ = std::move(action); }
  /// Sends the last statistics and stops reporting. Two threads may call it; both return
  /// afterwards.
  void finish();

  Usage charge(std::uint32_t device, MemoryKind kind, std::uint64_t bytes) override;
  void refund(std::uint32_t device, MemoryKind kind, std::uint64_t bytes) override;
  void measured(std::uint32_t device, MemoryKind kind, std::uint64_t bytes) override {
    static_cast<void>(link::send_message(fd_, link::Measured{device, bytes, kind}));
  }
  Usage query(std::uint32_t device) override;
  void recalled() override { static_cast<void>(link::send_message(fd_, link::RecallDone{})); }
  void note_spare(std::uint32_t device, std::uint64_t bytes) override {
    static_cast<void>(link::send_message(fd_, link::Spare{device, bytes}));
  }

 private:
  /// A question and its answer. Who stops waiting leaves it in line, so that the answers after it
  /// find the right question.
  struct Question {
    link::Charge charge;  ///< of a question about use: of nothing
    bool is_answered = false, is_abandoned = false;
    Usage answer;
  };

  Usage ask(const link::Message& message, const link::Charge& charge);
  void take_resume(link::Received& received, const link::ResumeData& resume);
  void take_answer(const link::Answer& answer);
  void read();
  void report();

  int fd_;
  std::chrono::milliseconds answer_time_;
  std::function<link::Stats()> stats_;
  std::function<void()> on_broker_gone_, on_recall_, before_report_;
  OnResume on_resume_;
  std::mutex send_mutex_;  ///< questions are in line in the order in which they are sent
  std::mutex mutex_;       ///< guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Question>> line_;
  bool is_gone_ = false, is_over_ = false, is_finished_ = false;
  std::thread reader_, reporter_;
};

}  // namespace sluice::server
