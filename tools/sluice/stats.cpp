#include "tools/sluice/stats.h"

#include "common/format.h"
#include "common/read_file.h"
#include "common/size.h"
#include "tools/sluice/exit_codes.h"
#include "tools/table.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <sstream>
#include <tuple>

namespace sluice::tool {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Cost {
  std::string function, travels, site;  ///< without a site: the whole function
  std::uint64_t calls = 0, waits = 0, waited_us = 0, bytes = 0;
};

struct Report {
  std::vector<json> processes;
  std::vector<Cost> functions, sites;
};

std::uint64_t number(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::string text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "?";
}

/// One object, or one for each line.
Result<std::vector<json>> read(const std::string& path) {
  constexpr std::size_t kFileBytesMax = 256 << 20;
  SLUICE_TRY(std::string whole, read_file(path, kFileBytesMax));
  std::istringstream file(std::move(whole));
  std::vector<json> out;
  std::string line;
  for (int at = 1; std::getline(file, line); ++at) {
    if (line.empty()) continue;
    json one = json::parse(line, nullptr, false);
    if (!one.is_object() || !one.contains("functions") || !one["functions"].is_object())
      return fail(ErrorCode::kInvalidArgument,
                  format("{}:{} is not what the shim writes as JSON; make it with "
                         "SLUICE_STATS=FILE.json, SLUICE_STATS_FILE, or sluice stats -- PROGRAM",
                         path, at));
    out.push_back(std::move(one));
  }
  if (out.empty())
    return fail(ErrorCode::kInvalidArgument, format("{} has no statistics in it", path));
  return out;
}

Report add_up(std::vector<json> processes) {
  std::map<std::pair<std::string, std::string>, Cost> functions, sites;
  for (const json& process : processes) {
    for (const auto& [name, counts] : process["functions"].items()) {
      Cost& sum = functions[{name, ""}];
      sum.function = name;
      sum.travels = text(counts, "class");
      sum.calls += number(counts, "count");
      sum.waits += number(counts, "round_trips");
      sum.waited_us += number(counts, "waited_us");
      sum.bytes += number(counts, "bytes");
    }
    for (const json& site : process.value("sites", json::array())) {
      Cost& sum = sites[{text(site, "function"), text(site, "site")}];
      sum.function = text(site, "function");
      sum.site = text(site, "site");
      sum.waits += number(site, "count");
      sum.waited_us += number(site, "waited_us");
    }
  }
  Report out;
  out.processes = std::move(processes);
  for (auto& item : functions) out.functions.push_back(std::move(item.second));
  for (auto& item : sites) out.sites.push_back(std::move(item.second));
  return out;
}

void sort_by(const std::string& what, std::vector<Cost>* costs) {
  const auto key = [&](const Cost& c) {
    const std::uint64_t first = what == "calls"   ? c.calls
                                : what == "waits" ? c.waits
                                : what == "bytes" ? c.bytes
                                                  : c.waited_us;
    return std::tuple(first, c.waited_us, c.calls);
  };
  std::sort(costs->begin(), costs->end(), [&](const Cost& a, const Cost& b) {
    if (key(a) != key(b)) return key(a) > key(b);
    return std::tie(a.function, a.site) < std::tie(b.function, b.site);
  });
}

std::string milliseconds(std::uint64_t us) {
  return format("{:.3f}", static_cast<double>(us) / 1000.0);
}

std::string heading(const json& process) {
  return format("{} (pid {}) on {}: {} calls, {} round trips, {} posted, {} sent, {} received\n",
                text(process, "program"), number(process, "pid"), text(process, "server"),
                number(process, "calls"), number(process, "round_trips"), number(process, "posted"),
                size_text(number(process, "bytes_sent")),
                size_text(number(process, "bytes_received")));
}

std::string table_of(const Report& report, std::size_t lines_max) {
  const auto shown = [&](const std::vector<Cost>& costs) {
    return lines_max == 0 ? costs.size() : std::min(lines_max, costs.size());
  };
  std::string out;
  for (const json& process : report.processes) out += heading(process);
  Table functions({"WAITED ms", "WAITS", "CALLS", "BYTES", "CLASS", "FUNCTION"});
  for (std::size_t i = 0; i < shown(report.functions); ++i) {
    const Cost& c = report.functions[i];
    functions.add({milliseconds(c.waited_us), std::to_string(c.waits), std::to_string(c.calls),
                   std::to_string(c.bytes), c.travels, c.function});
  }
  out += "\n" + functions.text();
  if (const std::size_t left = report.functions.size() - shown(report.functions); left > 0)
    out += format("... and {} functions more (--lines 0)\n", left);
  if (report.sites.empty()) return out;
  Table sites({"WAITED ms", "WAITS", "FUNCTION", "FROM"});
  for (std::size_t i = 0; i < shown(report.sites); ++i) {
    const Cost& c = report.sites[i];
    sites.add({milliseconds(c.waited_us), std::to_string(c.waits), c.function, c.site});
  }
  return out + "\n" + sites.text();
}

std::string json_text(const Report& report) {
  json functions = json::array();
  json sites = json::array();
  for (const Cost& c : report.functions)
    functions.push_back({{"function", c.function},
                         {"class", c.travels},
                         {"calls", c.calls},
                         {"waits", c.waits},
                         {"waited_us", c.waited_us},
                         {"bytes", c.bytes}});
  for (const Cost& c : report.sites)
    sites.push_back({{"function", c.function},
                     {"site", c.site},
                     {"waits", c.waits},
                     {"waited_us", c.waited_us}});
  json processes = json::array();
  for (json process : report.processes) {
    process.erase("functions");
    process.erase("sites");
    processes.push_back(std::move(process));
  }
  const json all = {{"processes", processes}, {"functions", functions}, {"sites", sites}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Status write(const std::string& path, std::FILE* standard, const std::string& report) {
  std::FILE* out = path.empty() ? standard : std::fopen(path.c_str(), "we");
  const bool is_whole = out != nullptr &&
                        std::fwrite(report.data(), 1, report.size(), out) == report.size() &&
                        std::fflush(out) == 0;
  const int error = errno;
  if (!path.empty() && out != nullptr) std::fclose(out);
  if (is_whole) return {};
  return fail(ErrorCode::kSystem,
              format("the report cannot be written to {}: {}",
                     path.empty() ? "the terminal" : path.c_str(), std::strerror(error)));
}

Status show(const StatsOptions& options, std::FILE* standard) {
  std::vector<json> processes;
  for (const std::string& file : options.files) {
    SLUICE_TRY(auto some, read(file));
    std::move(some.begin(), some.end(), std::back_inserter(processes));
  }
  Report report = add_up(std::move(processes));
  sort_by(options.sort, &report.functions);
  // Places have no calls or bytes of their own.
  sort_by(options.sort == "waits" ? "waits" : "waited", &report.sites);
  return write(options.to, standard,
               options.output == "json" ? json_text(report) : table_of(report, options.lines_max));
}

}  // namespace

Result<StatsFolder> StatsFolder::make() {
  const char* parent = std::getenv("TMPDIR");
  // Absolute: the program may go to another folder before it writes.
  std::error_code ignored;
  std::string path =
      fs::absolute(parent != nullptr && *parent != '\0' ? parent : "/tmp", ignored).string() +
      "/sluice-stats.XXXXXX";
  if (::mkdtemp(path.data()) == nullptr)
    return fail(ErrorCode::kSystem, format("no folder for the statistics at {}: {}; set TMPDIR",
                                           path, std::strerror(errno)));
  ::setenv("SLUICE_STATS", (path + "/%p.json").c_str(), 1);
  return StatsFolder(std::move(path));
}

StatsFolder::~StatsFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

std::vector<std::string> StatsFolder::files() const {
  std::vector<std::string> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored))
    out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

Status can_be_written(const StatsOptions& options) {
  return options.to.empty() ? Status{} : write(options.to, nullptr, "");
}

int show_stats(const StatsOptions& options) {
  const auto done = show(options, stdout);
  if (done) return 0;
  std::fprintf(stderr, "sluice stats: %s\n", done.error().message.c_str());
  return kExitUsage;
}

void show_stats_of_program(StatsOptions options, const StatsFolder& folder) {
  options.files = folder.files();
  if (options.files.empty()) {
    std::fprintf(stderr,
                 "sluice stats: no statistics: no process made CUDA calls, or those that did were "
                 "ended by a signal or _exit()\n");
    return;
  }
  if (const auto done = show(options, stderr); !done)
    std::fprintf(stderr, "sluice stats: %s\n", done.error().message.c_str());
}

}  // namespace sluice::tool
