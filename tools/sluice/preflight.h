// What can be told about a program before it runs: why the shim could not work with it, and what
// to do about that.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sluice::tool {

struct Refusal {
  int exit_code;
  std::string message;
};

struct Preflight {
  /// The program, then the interpreter if it is a script, then that one's ...
  std::vector<std::string> files;
  std::optional<Refusal> problem;
};

/// Full path of `program` as execvp would find it; empty if there is none.
std::string find_program(const std::string& program);
/// `program` as the user named it.
Preflight preflight(const std::string& program);

}  // namespace sluice::tool
