#include "server/store/usage_log.h"

#include "common/format.h"
#include "common/log.h"

#include <pthread.h>

namespace sluice::server::store {
namespace {

/// For an administrator who waits.
constexpr std::chrono::seconds kFlushTime{5};
std::string add_sql(const char* table, const char* parameters) {
  return format(
      "INSERT INTO {} VALUES ({}) ON CONFLICT DO UPDATE SET gpu_s = gpu_s + excluded.gpu_s, "
      "reserved_gpu_s = reserved_gpu_s + excluded.reserved_gpu_s, memory_byte_s = memory_byte_s + "
      "excluded.memory_byte_s, reserved_memory_byte_s = reserved_memory_byte_s + "
      "excluded.reserved_memory_byte_s",
      table, parameters);
}

void bind_use(Statement& statement, const Use& use) {
  statement.bind(use.gpu_s).bind(use.reserved_gpu_s);
  statement.bind(use.memory_byte_s).bind(use.reserved_memory_byte_s);
}

Use use_of(const Statement& row, int first) {
  return {row.real(first), row.real(first + 1), row.real(first + 2), row.real(first + 3)};
}

Result<std::map<UseKey, Use>> read_totals(Database& database) {
  SLUICE_TRY(Statement rows, database.prepare("SELECT * FROM usage_total"));
  std::map<UseKey, Use> out;
  for (;;) {
    SLUICE_TRY(const bool has_row, rows.step());
    if (!has_row) return out;
    out[{rows.text(0), rows.text(1)}] = use_of(rows, 2);
  }
}

/// How SQLite writes the period that an hour lies in.
std::string period_sql(Period period) {
  const auto formatted = [](const char* text) {
    return format("strftime('{}', hour * 3600, 'unixepoch')", text);
  };
  switch (period) {
    case Period::kMonth:
      return formatted("%Y-%m");
    case Period::kDay:
      return formatted("%Y-%m-%d");
    case Period::kHour:
      return formatted("%Y-%m-%dT%H:00Z");
    case Period::kAll:
      break;
  }
  return "''";
}

std::string query_sql(const UsageQuery& query) {
  return format(
      "SELECT {} AS period, {} AS who, {} AS device, sum(gpu_s), sum(reserved_gpu_s), "
      "sum(memory_byte_s), sum(reserved_memory_byte_s) FROM usage WHERE hour >= ? AND hour < ? {} "
      "GROUP BY period, who, device ORDER BY period, who, device LIMIT {}",
      period_sql(query.period), query.by_tenant ? "tenant" : "''", query.by_gpu ? "gpu" : "''",
      query.tenant.empty() ? "" : "AND tenant = ?", kUsageGroupsMax + 1);
}

}  // namespace

UsageLog::UsageLog(Database writer, Database reader, std::map<UseKey, Use> totals,
                   std::chrono::milliseconds retry)
    : totals_(std::move(totals)),
      retry_(retry),
      writer_(std::move(writer)),
      reader_(std::move(reader)),
      thread_([this] { serve(); }) {}

Result<std::unique_ptr<UsageLog>> UsageLog::open(const State& state,
                                                 std::chrono::milliseconds retry) {
  SLUICE_TRY(Database writer, state.connect());
  SLUICE_TRY(Database reader, state.connect());
  SLUICE_TRY(auto totals, read_totals(reader));
  return std::unique_ptr<UsageLog>(
      new UsageLog(std::move(writer), std::move(reader), std::move(totals), retry));
}

UsageLog::~UsageLog() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void UsageLog::add(const std::vector<UsageRow>& rows) {
  if (rows.empty()) return;
  const std::lock_guard lock(mutex_);
  for (const UsageRow& row : rows) pending_[{row.hour, row.key}] += row.use;
  ++added_;
  changed_.notify_all();
}

void UsageLog::serve() {
  ::pthread_setname_np(::pthread_self(), "sluice-usage");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stops_ || !pending_.empty(); });
    const bool was_last = stops_;
    const bool is_written = pending_.empty() || write_pending(lock);
    if (was_last) return;
    if (!is_written) changed_.wait_for(lock, retry_, [this] { return stops_; });
  }
}

bool UsageLog::write_pending(std::unique_lock<std::mutex>& lock) {
  Rows rows;
  rows.swap(pending_);
  const std::uint64_t count = added_;
  lock.unlock();
  const Status written = write(writer_, rows);
  lock.lock();
  if (written) {
    written_ = count;
    problem_.clear();
  } else {
    for (const auto& [key, use] : rows) pending_[key] += use;
    if (problem_ != written.error().message)
      SLUICE_LOG_ERROR("session", "the usage cannot be written, and is tried again: {}",
                       written.error().message);
    problem_ = written.error().message;
  }
  changed_.notify_all();
  return written.has_value();
}

Status UsageLog::write(Database& database, const Rows& rows) {
  return database.transaction([&]() -> Status {
    SLUICE_TRY(Statement hour, database.prepare(add_sql("usage", "?,?,?,?,?,?,?")));
    SLUICE_TRY(Statement total, database.prepare(add_sql("usage_total", "?,?,?,?,?,?")));
    for (const auto& [key, use] : rows) {
      const auto& [tenant, gpu] = key.second;
      hour.bind(key.first).bind(std::string_view(tenant)).bind(std::string_view(gpu));
      bind_use(hour, use);
      SLUICE_CHECK(hour.run());
      total.bind(std::string_view(tenant)).bind(std::string_view(gpu));
      bind_use(total, use);
      SLUICE_CHECK(total.run());
    }
    return {};
  });
}

Status UsageLog::flush() {
  std::unique_lock lock(mutex_);
  const std::uint64_t count = added_;
  if (changed_.wait_for(lock, kFlushTime, [&] { return written_ >= count; })) return {};
  return fail(ErrorCode::kTimeout, problem_.empty() ? "the usage is still being written; try again"
                                                    : "the usage cannot be written: " + problem_);
}

std::string UsageLog::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

Result<std::vector<UsageGroup>> UsageLog::query(const UsageQuery& query) {
  SLUICE_CHECK(flush());
  const std::lock_guard lock(reader_mutex_);
  SLUICE_TRY(Statement rows, reader_.prepare(query_sql(query)));
  rows.bind(query.from_hour).bind(query.to_hour);
  if (!query.tenant.empty()) rows.bind(std::string_view(query.tenant));
  std::vector<UsageGroup> out;
  for (;;) {
    SLUICE_TRY(const bool has_row, rows.step());
    if (!has_row) return out;
    if (out.size() == kUsageGroupsMax)
      return fail(ErrorCode::kExhausted,
                  format("more than {} lines: ask for days instead of hours, or for less time",
                         kUsageGroupsMax));
    out.push_back({rows.text(0), rows.text(1), rows.text(2), use_of(rows, 3)});
  }
}

}  // namespace sluice::server::store
