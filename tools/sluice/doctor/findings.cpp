#include "tools/sluice/doctor/findings.h"

#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <utility>

namespace sluice::tool {
namespace {

constexpr int kSchema = 1;  ///< of the JSON: grows when a key changes its meaning or goes

}  // namespace

void Findings::good(const std::string& what, const std::string& text) {
  add({"ok", what, text, ""});
}

void Findings::warn(const std::string& what, const std::string& text, const std::string& advice) {
  add({"warning", what, text, advice});
}

void Findings::bad(const std::string& what, int code, const std::string& text) {
  if (code_ == 0) code_ = code;
  add({"problem", what, text, ""});
}

void Findings::add(Finding finding) {
  if (!is_json_) {
    std::istringstream lines(finding.text);
    std::string line;
    std::getline(lines, line);
    std::printf("%-8s %-14s %s\n", finding.state.c_str(), finding.what.c_str(), line.c_str());
    while (std::getline(lines, line)) std::printf("%-8s %-14s %s\n", "", "", line.c_str());
    std::fflush(stdout);
  }
  all_.push_back(std::move(finding));
}

void Findings::finish() const {
  if (is_json_) {
    nlohmann::json whole = facts_;
    whole["schema"] = kSchema;
    whole["exit_status"] = code_;
    whole["checks"] = nlohmann::json::array();
    for (const Finding& one : all_)
      whole["checks"].push_back(
          {{"state", one.state}, {"what", one.what}, {"text", one.text}, {"advice", one.advice}});
    // Names and messages of others need not be UTF-8.
    std::printf("%s\n",
                whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return;
  }
  bool is_first = true;
  for (const Finding& one : all_) {
    if (one.state != "warning") continue;
    if (std::exchange(is_first, false)) std::printf("\nWhat could be better:\n");
    std::printf("  %s: %s\n    -> %s\n", one.what.c_str(),
                one.text.substr(0, one.text.find('\n')).c_str(), one.advice.c_str());
  }
}

void Progress::show(const std::string& what) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[Kmeasuring: %s ...", what.c_str());
  std::fflush(stderr);
  is_shown_ = true;
}

void Progress::clear() {
  if (std::exchange(is_shown_, false)) std::fprintf(stderr, "\r\033[K");
}

}  // namespace sluice::tool
