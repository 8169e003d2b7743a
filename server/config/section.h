// One table of a TOML file being read: gives errors their place and finds keys that nobody knows.
// For the readers in this folder and the tools.
#pragma once

#include "common/result.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace sluice::config {

/// The text of a TOML file. Err(kInvalidArgument) "path:line: what is wrong".
Result<toml::table> parse_table(const std::string& text, const std::string& path);
/// Err also as read_file(): kNotFound if there is none.
Result<toml::table> load_table(const std::string& path);

class Section {
 public:
  /// `where` is how messages call the table: "[server]". `path` names the file; borrowed.
  Section(const toml::table& table, std::string where, const std::string& path)
      : table_(table), where_(std::move(where)), path_(path) {}

  /// Texts, booleans and numbers from 0 to `max`; leaves `out` alone if the key is absent.
  template <class T>
  Status read(std::string_view key, T* out, std::int64_t max = 1'000'000) {
    const toml::node* node = get(key);
    if (node == nullptr) return {};
    if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, bool>) {
      const auto value = node->value_exact<T>();
      if (!value)
        return wrong(*node, key, std::is_same_v<T, bool> ? "true or false" : "a text in quotes");
      *out = *value;
    } else {
      const auto value = node->value_exact<std::int64_t>();
      if (!value || *value < 0 || *value > max)
        return wrong(*node, key, "a number from 0 to " + std::to_string(max));
      *out = static_cast<T>(*value);
    }
    return {};
  }
  /// "64MiB"
  Status read_size(std::string_view key, std::uint64_t* out);
  /// "10m"
  Status read_duration(std::string_view key, std::chrono::milliseconds* out);

  [[nodiscard]] bool has(std::string_view key) const { return table_.contains(key); }
  /// The key counts as known from now on; nullptr if it is absent.
  const toml::node* get(std::string_view key);

  /// Err names the first unknown key, its line, and the nearest known one.
  [[nodiscard]] Status finish() const;
  /// "path:line: key in [section]: expected ..."
  [[nodiscard]] tl::unexpected<Error> wrong(const toml::node& node, std::string_view key,
                                            std::string_view wanted) const;
  /// The same, for a reader of values that says itself what is wrong.
  [[nodiscard]] tl::unexpected<Error> wrong(const toml::node& node, std::string_view key,
                                            const Error& why) const;

 private:
  const toml::table& table_;
  std::string where_;
  const std::string& path_;
  std::vector<std::string_view> known_;
};

}  // namespace sluice::config
