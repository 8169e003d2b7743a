#include "shim/audit/choice.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace sluice::audit {
namespace {

struct Family {
  std::string_view file;    // ours
  std::string_view stem;    // what its name begins with
  std::string_view number;  // the version that follows ".so."
};
constexpr Family kFamilies[] = {
    {"libcuda.so.1", "libcuda", "1"},
    {"libcudart.so.13", "libcudart", "13"},
    {"libcudart.so.12", "libcudart", "12"},
    {"libcudart.so.11.0", "libcudart", "11"},
    {"libnvidia-ml.so.1", "libnvidia-ml", "1"},
    // Stand-ins of the CUDA-X libraries (shim/libs).
    {"libcublas.so.13", "libcublas", "13"},
    {"libcublas.so.12", "libcublas", "12"},
    {"libcublasLt.so.13", "libcublasLt", "13"},
    {"libcublasLt.so.12", "libcublasLt", "12"},
    {"libcudnn.so.9", "libcudnn", "9"},
    {"libcufft.so.12", "libcufft", "12"},
    {"libcufft.so.11", "libcufft", "11"},
    {"libcurand.so.10", "libcurand", "10"},
    {"libcusolver.so.12", "libcusolver", "12"},
    {"libcusolver.so.11", "libcusolver", "11"},
    {"libcusolverMg.so.12", "libcusolverMg", "12"},
    {"libcusolverMg.so.11", "libcusolverMg", "11"},
    {"libcusparse.so.12", "libcusparse", "12"},
    {"libnccl.so.2", "libnccl", "2"},
    {"libcupti.so.13", "libcupti", "13"},
    {"libcupti.so.12", "libcupti", "12"},
    {"libnvToolsExt.so.1", "libnvToolsExt", "1"},
};

/// "12" is the version of "12" and "12.4.127", not of "120".
bool is_version(std::string_view text, std::string_view number) {
  return text.starts_with(number) && (text.size() == number.size() || text[number.size()] == '.');
}

}  // namespace

std::string_view base_name(const char* path) noexcept {
  const std::string_view whole(path);
  const std::size_t slash = whole.rfind('/');
  return slash == std::string_view::npos ? whole : whole.substr(slash + 1);
}

std::string_view stand_in_for(std::string_view name) noexcept {
  constexpr std::string_view kSuffix = ".so";
  const std::size_t suffix = name.find(kSuffix);
  if (suffix == std::string_view::npos) return {};
  const std::string_view stem = name.substr(0, suffix);
  std::string_view version = name.substr(suffix + kSuffix.size());
  if (!version.empty() && version.front() != '.') return {};
  if (!version.empty()) version.remove_prefix(1);
  for (const Family& family : kFamilies) {
    // A wheel's copy carries a hash behind its name. No other library belongs to a wheel.
    const bool is_ours =
        stem == family.stem || (family.stem == "libcudart" && stem.starts_with("libcudart-"));
    // The name for linking, without a version, means the newest.
    if (is_ours && (version.empty() || is_version(version, family.number))) return family.file;
  }
  return {};
}

bool is_own_program(std::string_view name) noexcept {
  constexpr std::string_view kNames[] = {"sluice", "sluiced", "sluice-worker", "sluicectl",
                                         "sluice-pool"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

Choice::Choice(const std::string& folder) {
  for (const Family& family : kFamilies) {
    std::string path = folder + "/" + std::string(family.file);
    if (::access(path.c_str(), R_OK) == 0)
      libraries_.push_back({std::string(family.file), std::move(path)});
  }
}

const char* Choice::choose(const char* name) const noexcept {
  const std::string_view wanted = stand_in_for(base_name(name));
  if (wanted.empty()) return name;
  for (const Library& library : libraries_)
    if (library.file == wanted) return library.path.c_str();
  return name;
}

}  // namespace sluice::audit
