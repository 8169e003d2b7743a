// PTX text to ast.h. Module scope is parsed whole; bodies are checked for syntax and parsed again
// when a kernel is compiled.
#pragma once

#include "softgpu/ptx/ast.h"

#include <optional>

namespace sluice::softgpu::ptx {

struct ParseError {
  /// kUnsupported is about one function (of parse_body), never about the module.
  enum class Kind { kSyntax, kVersion, kUnresolved, kUnsupported } kind = Kind::kSyntax;
  int line = 0;
  std::string message;
  [[nodiscard]] std::string text() const;  ///< "line 8: ..."
};

/// Newest .version understood, as 10 * major + minor.
inline constexpr int kPtxVersionMax = 92;

/// nullopt = success. Every body was parsed once for syntax and for calls of functions that do not
/// exist.
std::optional<ParseError> parse_module(std::string text, Module* out);
std::optional<ParseError> parse_body(const Module& module, const Function& function, Body* out);

}  // namespace sluice::softgpu::ptx
