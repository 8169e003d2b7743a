#include "common/duration.h"

#include "common/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace sluice {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t ms;
};
constexpr std::int64_t kSecond = 1000, kMinute = 60 * kSecond, kHour = 60 * kMinute,
                       kDay = 24 * kHour, kDurationMax = 3653 * kDay;
constexpr std::array<Unit, 5> kUnits = {
    {{"d", kDay}, {"h", kHour}, {"m", kMinute}, {"s", kSecond}, {"ms", 1}}};

}  // namespace

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  const auto bad = [text](std::string_view why) {
    return fail(ErrorCode::kInvalidArgument,
                format("\"{}\" is no time: {}; write whole numbers with units, e.g. \"10m\", "
                       "\"1h30m\" or \"500ms\", or \"none\"",
                       text, why));
  };
  if (text == "none") return std::chrono::milliseconds(0);
  if (text.empty()) return bad("it is empty");
  std::int64_t total = 0;
  for (std::string_view rest = text; !rest.empty();) {
    std::int64_t number = 0;
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (parsed.ec == std::errc::result_out_of_range) return bad("it is too long");
    if (parsed.ec != std::errc{} || number < 0) return bad("a number is missing");
    rest.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest.data()));
    const std::string_view name = rest.substr(0, rest.find_first_of("0123456789"));
    const auto unit = std::find_if(kUnits.begin(), kUnits.end(),
                                   [&](const Unit& known) { return known.name == name; });
    if (unit == kUnits.end())
      return bad(name.empty() ? "a unit is missing" : format("the unit \"{}\" is unknown", name));
    if (number > (kDurationMax - total) / unit->ms) return bad("it is too long");
    total += number * unit->ms;
    rest.remove_prefix(name.size());
  }
  // "No time at all" or "no limit"? Who wants the latter has a word for it.
  if (total == 0) return bad("it is zero");
  return std::chrono::milliseconds(total);
}

std::string duration_text(std::chrono::milliseconds time) {
  std::int64_t left = time.count();
  if (left <= 0) return "none";
  std::string out;
  for (const Unit& unit : kUnits) {
    if (left < unit.ms) continue;
    out += format("{}{}", left / unit.ms, unit.name);
    left %= unit.ms;
  }
  return out;
}

}  // namespace sluice
