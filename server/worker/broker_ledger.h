// The ledger as seen over the link to the broker, and the worker's reports to it.
#pragma once

#include "server/link.h"
#include "server/worker/ledger_link.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace sluice::server {

/// Thread-safe. One thread reads the link: answers, and the end of the broker, which ends the
/// worker too.
class BrokerLedger final : public LedgerLink {
 public:
  explicit BrokerLedger(int link_fd) : fd_(link_fd) {}
  ~BrokerLedger() override { finish(); }
  BrokerLedger(const BrokerLedger&) = delete;
  BrokerLedger& operator=(const BrokerLedger&) = delete;

  /// `stats` is asked twice a second; `on_broker_gone` is called when the link is closed.
  void start(std::function<link::Stats()> stats, std::function<void()> on_broker_gone);
  /// Sends the last statistics and stops reporting.
  void finish();

  Usage charge(std::uint32_t device, std::uint64_t bytes) override;
  void refund(std::uint32_t device, std::uint64_t bytes) override;
  Usage query(std::uint32_t device) override;

 private:
  Usage ask(const link::Message& question);
  void read();
  void report();

  int fd_;
  std::function<link::Stats()> stats_;
  std::function<void()> on_broker_gone_;
  std::mutex ask_mutex_;  ///< one question at a time: answers come in order
  std::mutex mutex_;      ///< guards what follows
  std::condition_variable changed_;
  bool has_answer_ = false, is_gone_ = false, is_over_ = false;
  link::Answer answer_;
  std::thread reader_, reporter_;
};

}  // namespace sluice::server
