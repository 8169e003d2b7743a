// What can be told about a program before it runs: why the shim could not work with it.
#pragma once

#include <optional>
#include <string>

namespace sluice::tool {

struct Refusal {
  int exit_code;
  std::string message;
};
/// Full path of `program` as execvp would find it; empty if there is none.
std::string find_program(const std::string& program);
/// nullopt: nothing speaks against it (scripts are fine: their interpreter is the program).
std::optional<Refusal> preflight(const std::string& path);

}  // namespace sluice::tool
