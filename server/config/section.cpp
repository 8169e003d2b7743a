#include "server/config/section.h"

#include "common/duration.h"
#include "common/format.h"
#include "common/nearest.h"
#include "common/read_file.h"
#include "common/size.h"

#include <algorithm>

namespace sluice::config {

Result<toml::table> parse_table(const std::string& text, const std::string& path) {
  toml::parse_result parsed = toml::parse(text, path);
  if (parsed) return std::move(parsed).table();
  return fail(ErrorCode::kInvalidArgument,
              format("{}:{}: {}", path, parsed.error().source().begin.line,
                     std::string(parsed.error().description())));
}

Result<toml::table> load_table(const std::string& path) {
  constexpr std::size_t kFileBytesMax = 16 << 20;
  SLUICE_TRY(const std::string text, read_file(path, kFileBytesMax));
  return parse_table(text, path);
}

Status Section::read_size(std::string_view key, std::uint64_t* out) {
  std::string text;
  SLUICE_CHECK(read(key, &text));
  if (!has(key)) return {};
  auto size = parse_size(text);
  if (!size) return wrong(*table_.get(key), key, size.error());
  *out = *size;
  return {};
}

Status Section::read_duration(std::string_view key, std::chrono::milliseconds* out) {
  std::string text;
  SLUICE_CHECK(read(key, &text));
  if (!has(key)) return {};
  auto time = parse_duration(text);
  if (!time) return wrong(*table_.get(key), key, time.error());
  *out = *time;
  return {};
}

const toml::node* Section::get(std::string_view key) {
  known_.push_back(key);
  return table_.get(key);
}

Status Section::finish() const {
  for (const auto& [key, node] : table_) {
    const std::string_view name = key.str();
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    const std::string_view like = nearest(name, known_);
    return fail(ErrorCode::kInvalidArgument,
                format("{}:{}: unknown key \"{}\" in {}{}", path_, node.source().begin.line, name,
                       where_, like.empty() ? "" : format("; did you mean \"{}\"?", like)));
  }
  return {};
}

tl::unexpected<Error> Section::wrong(const toml::node& node, std::string_view key,
                                     std::string_view wanted) const {
  return wrong(node, key, Error{ErrorCode::kInvalidArgument, format("expected {}", wanted)});
}

tl::unexpected<Error> Section::wrong(const toml::node& node, std::string_view key,
                                     const Error& why) const {
  return fail(
      ErrorCode::kInvalidArgument,
      format("{}:{}: {} in {}: {}", path_, node.source().begin.line, key, where_, why.message));
}

}  // namespace sluice::config
