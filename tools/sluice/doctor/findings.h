// What `sluice doctor` has found out: one line each for people as soon as it is known, everything
// together as JSON for machines, and at the end what to do about each warning. Only a problem makes
// an exit status.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace sluice::tool {

class Findings {
 public:
  explicit Findings(bool is_json) : is_json_(is_json) {}

  /// `what` is a stable name; lines of `text` after the first are continued below it.
  void good(const std::string& what, const std::string& text);
  /// It works, but something could be better: `advice` says what to do.
  void warn(const std::string& what, const std::string& text, const std::string& advice);
  /// It cannot work; the first one decides the exit status. The text says what to do.
  void bad(const std::string& what, int code, const std::string& text);
  /// For JSON alone.
  void set(const std::string& key, nlohmann::json value) { facts_[key] = std::move(value); }

  [[nodiscard]] int code() const { return code_; }
  /// The warnings once more with what to do, or the whole as one JSON object.
  void finish() const;

 private:
  struct Finding {
    std::string state, what, text, advice;
  };
  void add(Finding finding);

  const bool is_json_;
  int code_ = 0;
  std::vector<Finding> all_;
  nlohmann::json facts_ = nlohmann::json::object();
};

/// On a terminal: what takes time just now. Says nothing elsewhere.
class Progress {
 public:
  void show(const std::string& what);
  void clear();
  ~Progress() { clear(); }

 private:
  bool is_shown_ = false;
};

}  // namespace sluice::tool
