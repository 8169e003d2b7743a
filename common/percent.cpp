#include "common/percent.h"

#include "common/format.h"

#include <charconv>

namespace sluice {

Result<double> parse_percent(std::string_view text) {
  const char* const end = text.data() + text.size();
  double percent = 0;
  const auto parsed = std::from_chars(text.data(), end, percent, std::chars_format::fixed);
  const std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  if (parsed.ec != std::errc{} || unit != "%" || !(percent >= 0 && percent <= 100))
    return fail(ErrorCode::kInvalidArgument,
                format("\"{}\" is no part of a device: write a percentage from 0% to 100%, e.g. "
                       "\"30%\"",
                       text));
  return percent / 100;
}

std::string percent_text(double fraction) {
  std::string out = format("{:.3f}", fraction * 100);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.ends_with('.')) out.pop_back();
  return out + "%";
}

}  // namespace sluice
