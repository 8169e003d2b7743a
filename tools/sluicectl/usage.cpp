#include "tools/sluicectl/usage.h"

#include "common/format.h"
#include "tools/sluicectl/views.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

namespace sluice::tool {
namespace {

using server::store::Period;
using server::store::UsageGroup;
using server::store::UsageQuery;
using WallTime = std::chrono::system_clock::time_point;
using std::chrono::hours;

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kSecondsPerHour = 3600;

/// 2026-11-30, or 2026-11-30T17:00: usage is kept by the hour.
Result<std::int64_t> hour_of(const char* option, const std::string& text) {
  for (const char* form : {"%Y-%m-%d", "%Y-%m-%dT%H:00", "%Y-%m-%dT%H:00Z"}) {
    std::tm parts{};
    const char* end = ::strptime(text.c_str(), form, &parts);
    if (end == nullptr || *end != 0) continue;
    const std::tm asked = parts;
    const std::time_t s = ::timegm(&parts);
    // timegm makes the 3rd of March out of the 31st of February.
    if (s >= 0 && parts.tm_mday == asked.tm_mday) return s / static_cast<int>(kSecondsPerHour);
  }
  return fail(ErrorCode::kInvalidArgument,
              format("{}: \"{}\" is no time; write 2026-11-30, or 2026-11-30T17:00 (whole hours, "
                     "UTC)",
                     option, text));
}

std::int64_t first_of_month(WallTime now) {
  const std::time_t s = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  ::gmtime_r(&s, &parts);
  parts.tm_mday = 1;
  parts.tm_hour = parts.tm_min = parts.tm_sec = 0;
  return ::timegm(&parts) / static_cast<int>(kSecondsPerHour);
}

Status group_by(const std::vector<std::string>& words, UsageQuery* query) {
  query->by_tenant = false;
  for (const std::string& word : words) {
    const Period before = query->period;
    if (word == "tenant")
      query->by_tenant = true;
    else if (word == "gpu")
      query->by_gpu = true;
    else if (word == "month")
      query->period = Period::kMonth;
    else if (word == "day")
      query->period = Period::kDay;
    else if (word == "hour")
      query->period = Period::kHour;
    else
      return fail(
          ErrorCode::kInvalidArgument,
          format("--by: \"{}\" is not known; use tenant, gpu, and one of month, day, hour", word));
    if (before != Period::kAll && before != query->period)
      return fail(ErrorCode::kInvalidArgument, "--by: only one of month, day and hour");
  }
  return {};
}

nlohmann::json json_of(const UsageGroup& group, const UsageQuery& query) {
  nlohmann::json out;
  if (query.period != Period::kAll) out["period"] = group.period;
  if (query.by_tenant) out["tenant"] = group.tenant;
  if (query.by_gpu) out["gpu"] = group.gpu;
  out["gpu_seconds"] = group.use.gpu_s;
  out["reserved_gpu_seconds"] = group.use.reserved_gpu_s;
  out["gib_hours"] = group.use.memory_byte_s / kGiB / kSecondsPerHour;
  out["reserved_gib_hours"] = group.use.reserved_memory_byte_s / kGiB / kSecondsPerHour;
  return out;
}

std::vector<std::string> titles(const UsageQuery& query) {
  std::vector<std::string> out;
  if (query.period != Period::kAll) out.emplace_back("period");
  if (query.by_tenant) out.emplace_back("tenant");
  if (query.by_gpu) out.emplace_back("gpu");
  for (const char* name :
       {"gpu_seconds", "reserved_gpu_seconds", "gib_hours", "reserved_gib_hours"})
    out.emplace_back(name);
  return out;
}

std::vector<std::string> cells(const UsageGroup& group, const UsageQuery& query) {
  const nlohmann::json values = json_of(group, query);
  std::vector<std::string> out;
  for (const std::string& title : titles(query)) {
    const nlohmann::json& value = values.at(title);
    out.push_back(value.is_string() ? value.get<std::string>()
                                    : format("{:.3f}", value.get<double>()));
  }
  return out;
}

/// RFC 4180.
std::string csv_line(const std::vector<std::string>& cells) {
  std::string out;
  for (const std::string& cell : cells) {
    if (!out.empty()) out += ',';
    if (cell.find_first_of(",\"\r\n") == std::string::npos) {
      out += cell;
      continue;
    }
    out += '"';
    for (const char c : cell) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    out += '"';
  }
  return out + "\r\n";
}

void print_csv(const std::vector<UsageGroup>& groups, const UsageQuery& query) {
  std::string out = csv_line(titles(query));
  for (const UsageGroup& group : groups) out += csv_line(cells(group, query));
  std::fwrite(out.data(), 1, out.size(), stdout);
}

void print_table(const std::vector<UsageGroup>& groups, const UsageQuery& query) {
  std::vector<std::string> heads = titles(query);
  for (std::string& head : heads)
    std::transform(head.begin(), head.end(), head.begin(), [](unsigned char c) {
      return c == '_' ? ' ' : static_cast<char>(std::toupper(c));
    });
  Table table(heads);
  for (const UsageGroup& group : groups) table.add(cells(group, query));
  const std::string text = groups.empty() ? "nothing was used in that time\n" : table.text();
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

Result<UsageQuery> usage_query(const UsageOptions& options, WallTime now) {
  UsageQuery query;
  query.tenant = options.tenant;
  SLUICE_CHECK(group_by(options.by, &query));
  query.from_hour = first_of_month(now);
  if (!options.from.empty()) {
    SLUICE_TRY(query.from_hour, hour_of("--from", options.from));
  }
  // The hour that is not over yet is in it.
  query.to_hour = std::chrono::duration_cast<hours>(now.time_since_epoch()).count() + 1;
  if (!options.to.empty()) {
    SLUICE_TRY(query.to_hour, hour_of("--to", options.to));
  }
  if (query.from_hour >= query.to_hour)
    return fail(ErrorCode::kInvalidArgument, "--to must be later than --from");
  return query;
}

int usage(Session session, const UsageOptions& options) {
  const auto query = usage_query(options, std::chrono::system_clock::now());
  if (!query) return refuse(query.error());
  const auto groups = session.client.usage(*query);
  if (!groups) return refuse(groups.error());
  if (options.as_csv) {
    print_csv(*groups, *query);
  } else if (session.wants_json) {
    nlohmann::json out = nlohmann::json::array();
    for (const UsageGroup& group : *groups) out.push_back(json_of(group, *query));
    print_json(out);
  } else {
    print_table(*groups, *query);
  }
  return 0;
}

}  // namespace sluice::tool
