#include "common/size.h"

#include "common/format.h"

#include <array>
#include <cctype>
#include <charconv>

namespace sluice {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::uint64_t kKi = 1024, kK = 1000;
constexpr std::array<Unit, 14> kUnits = {{{"", 1},
                                          {"b", 1},
                                          {"k", kKi},
                                          {"kib", kKi},
                                          {"kb", kK},
                                          {"m", kKi* kKi},
                                          {"mib", kKi* kKi},
                                          {"mb", kK* kK},
                                          {"g", kKi* kKi* kKi},
                                          {"gib", kKi* kKi* kKi},
                                          {"gb", kK* kK* kK},
                                          {"t", kKi* kKi* kKi* kKi},
                                          {"tib", kKi* kKi* kKi* kKi},
                                          {"tb", kK* kK* kK* kK}}};

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  const auto bad = [text](std::string_view why) {
    return fail(ErrorCode::kInvalidArgument,
                format("\"{}\" is no size: {}; write a whole number and a unit, e.g. \"64MiB\" or "
                       "\"2GiB\"",
                       text, why));
  };
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec == std::errc::result_out_of_range) return bad("the number is too large");
  if (parsed.ec != std::errc{}) return bad("it does not start with a number");
  std::string_view rest(parsed.ptr,
                        static_cast<std::size_t>(text.data() + text.size() - parsed.ptr));
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  std::string unit(rest);
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Unit& known : kUnits) {
    if (unit != known.name) continue;
    if (number > UINT64_MAX / known.bytes) return bad("the number is too large");
    return number * known.bytes;
  }
  return bad(format("the unit \"{}\" is unknown", rest));
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  const bool is_whole = value == static_cast<double>(static_cast<std::uint64_t>(value));
  return is_whole ? format("{:.0f} {}", value, kNames[unit])
                  : format("{:.1f} {}", value, kNames[unit]);
}

}  // namespace sluice
