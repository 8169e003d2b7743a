// Keeps what tenants had of the devices, by hour and since ever. A thread of its own writes, so
// that a slow disk holds up nobody; what could not be written is kept and tried again. A server
// that is killed loses what was added since the last write, at most kWriteInterval.
#pragma once

#include "common/result.h"
#include "server/store/state.h"
#include "server/store/usage.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice::server::store {

/// Thread-safe.
class UsageLog {
 public:
  /// How often to add; also between attempts to write.
  static constexpr std::chrono::seconds kWriteInterval{10};

  static Result<std::unique_ptr<UsageLog>> open(const State& state,
                                                std::chrono::milliseconds retry = kWriteInterval);
  /// Writes what is left, if that can be written.
  ~UsageLog();
  UsageLog(const UsageLog&) = delete;
  UsageLog& operator=(const UsageLog&) = delete;

  /// Since ever, as it was when the log was opened.
  [[nodiscard]] const std::map<UseKey, Use>& totals() const { return totals_; }
  void add(const std::vector<UsageRow>& rows);
  /// With all that was added before. Err(kTimeout): it cannot be written; kExhausted: the answer is
  /// longer than kUsageGroupsMax.
  Result<std::vector<UsageGroup>> query(const UsageQuery& query);

  /// Why the last attempt to write failed; empty: it did not.
  [[nodiscard]] std::string problem() const;

 private:
  UsageLog(Database writer, Database reader, std::map<UseKey, Use> totals,
           std::chrono::milliseconds retry);
  void serve();
  bool write_pending(std::unique_lock<std::mutex>& lock);
  Status flush();

  using Rows = std::map<std::pair<std::int64_t, UseKey>, Use>;
  static Status write(Database& database, const Rows& rows);

  const std::map<UseKey, Use> totals_;
  const std::chrono::milliseconds retry_;
  Database writer_;  ///< of the thread
  std::mutex reader_mutex_;
  Database reader_;           ///< guarded by reader_mutex_
  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  Rows pending_;
  std::uint64_t added_ = 0, written_ = 0;  ///< calls of add(), and those of them on the disk
  std::string problem_;                    ///< of the last attempt; empty: there was none
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace sluice::server::store
