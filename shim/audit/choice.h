// Which libraries the audit object replaces: by base name, whatever path leads to them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::audit {

/// What follows the last slash.
std::string_view base_name(const char* path) noexcept;

/// Not thread-safe while it is made, then read only.
class Choice {
 public:
  /// `folder` holds our libraries; one that is not there is not offered.
  explicit Choice(const std::string& folder);
  /// Our file for a name that the loader was asked for, else the name itself. The result lives as
  /// long as this object or as `name`.
  const char* choose(const char* name) const noexcept;

 private:
  struct Library {
    std::string file;  // "libcudart.so.12"
    std::string path;
  };
  std::vector<Library> libraries_;
};

/// The file of ours that stands for a library of that base name, empty if none does. Examples:
/// "libcuda.so" and "libcuda.so.1" -> "libcuda.so.1"; "libcudart.so.12.4.127" and
/// "libcudart-9335f6a2.so.12" (as Python wheels rename it) -> "libcudart.so.12".
std::string_view stand_in_for(std::string_view base_name) noexcept;

/// Programs of Sluice's own: a worker opens the GPU's real driver by path and must get that one,
/// also if it was started from a program that runs with the shim.
bool is_own_program(std::string_view base_name) noexcept;

}  // namespace sluice::audit
