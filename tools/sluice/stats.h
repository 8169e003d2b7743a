// `sluice stats`: what a program's CUDA calls cost. Runs a program and shows it, or shows what
// SLUICE_STATS=FILE.json (or SLUICE_STATS_FILE) has written before. The shim counts; here processes
// are added up and sorted.
#pragma once

#include "common/result.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sluice::tool {

struct StatsOptions {
  std::string output = "table";  ///< or "json"
  std::string sort = "waited";   ///< waited, calls, waits, bytes
  std::string to;                ///< a file for the report; empty: stdout, beside a program stderr
  std::size_t lines_max = 20;    ///< of functions, and of places; 0: all. JSON has all.
  std::vector<std::string> files;
};

/// A private folder into which the shim of every process that is started now writes its statistics.
class StatsFolder {
 public:
  /// Sets SLUICE_STATS for this process and its children.
  static Result<StatsFolder> make();
  StatsFolder(StatsFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  StatsFolder& operator=(StatsFolder&&) = delete;
  StatsFolder(const StatsFolder&) = delete;
  StatsFolder& operator=(const StatsFolder&) = delete;
  ~StatsFolder();

  [[nodiscard]] std::vector<std::string> files() const;

 private:
  explicit StatsFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// Before a long run: an error if there is no place for its report.
Status can_be_written(const StatsOptions& options);
/// Reads the files and writes the report; an exit status.
int show_stats(const StatsOptions& options);
/// After a program: the report goes to stderr unless told otherwise, and no statistics are no
/// error.
void show_stats_of_program(StatsOptions options, const StatsFolder& folder);

}  // namespace sluice::tool
