#include "transport/emulate/link.h"

#include "common/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

namespace sluice::transport::emulate {
namespace {

/// What waits in front of the link; a sender beyond it is held back, as by TCP.
constexpr std::chrono::milliseconds kQueue{4};
constexpr double kTimeMaxNs = 10e9;
constexpr double kBandwidthMin = 1e3 / 8;

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array<Unit, 3> kTimes = {{{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
constexpr std::array<Unit, 3> kBandwidths = {
    {{"kbit", 1e3 / 8}, {"mbit", 1e6 / 8}, {"gbit", 1e9 / 8}}};

tl::unexpected<Error> bad(std::string_view part, std::string_view why) {
  return fail(ErrorCode::kInvalidArgument,
              format("\"{}\": {}; an emulated link is written as rtt=30ms,bw=1gbit,jitter=2ms "
                     "(times in us, ms, s; bandwidth in kbit, mbit, gbit)",
                     part, why));
}

Result<double> parse_amount(std::string_view part, std::string_view text,
                            std::span<const Unit> units) {
  double number = 0;
  const auto parsed =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (parsed.ec != std::errc{} || !(number >= 0)) return bad(part, "a number is missing");
  const std::string_view name = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  const auto unit =
      std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.name == name; });
  if (unit == units.end())
    return bad(part,
               name.empty() ? "the unit is missing" : format("the unit \"{}\" is unknown", name));
  return number * unit->factor;
}

}  // namespace

Result<LinkSpec> parse_link(std::string_view text) {
  LinkSpec spec;
  std::optional<double> rtt_ns, jitter_ns, bandwidth;
  for (std::string_view rest = text;;) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return bad(part, "expected NAME=VALUE");
    const std::string_view name = part.substr(0, equals);
    std::optional<double>* const wanted = name == "rtt"      ? &rtt_ns
                                          : name == "jitter" ? &jitter_ns
                                          : name == "bw"     ? &bandwidth
                                                             : nullptr;
    if (wanted == nullptr) return bad(part, "expected rtt, bw or jitter");
    if (*wanted) return bad(part, format("{} is there twice", name));
    const bool is_time = wanted != &bandwidth;
    SLUICE_TRY(const double value,
               parse_amount(part, part.substr(equals + 1),
                            is_time ? std::span<const Unit>(kTimes) : kBandwidths));
    if (is_time && value > kTimeMaxNs) return bad(part, "10s is the most");
    if (!is_time && value < kBandwidthMin) return bad(part, "1kbit is the least");
    *wanted = value;
    if (part.size() == rest.size()) break;
    rest.remove_prefix(part.size() + 1);
  }
  spec.rtt = std::chrono::nanoseconds(static_cast<std::int64_t>(rtt_ns.value_or(0)));
  spec.jitter = std::chrono::nanoseconds(static_cast<std::int64_t>(jitter_ns.value_or(0)));
  spec.bytes_per_s = bandwidth.value_or(0);
  return spec;
}

Deadline Link::ready_at(Way way) {
  if (spec_.bytes_per_s == 0) return {};
  const std::lock_guard lock(mutex_);
  return free_at_[static_cast<int>(way)] - kQueue;
}

Deadline Link::carry(Way way, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  Deadline& free_at = free_at_[static_cast<int>(way)];
  free_at = std::max(free_at, now);
  if (spec_.bytes_per_s > 0)
    free_at += std::chrono::nanoseconds(
        static_cast<std::int64_t>(static_cast<double>(bytes) * 1e9 / spec_.bytes_per_s));
  auto arrives = free_at + spec_.rtt / 2;
  if (spec_.jitter.count() > 0)
    arrives += std::chrono::nanoseconds(
        std::uniform_int_distribution<std::int64_t>(0, spec_.jitter.count())(random_));
  return arrives;
}

}  // namespace sluice::transport::emulate
