#include "scheduler/device/share.h"

#include "common/format.h"

#include <array>
#include <cmath>

namespace sluice::scheduler {
namespace {

constexpr std::array<std::string_view, kClassCount> kNames = {"best-effort", "standard",
                                                              "interactive", "realtime"};

Status check_fraction(const char* name, double value, bool may_be_zero) {
  const bool is_in_range =
      std::isfinite(value) && value <= 1 && (may_be_zero ? value >= 0 : value > 0);
  if (is_in_range) return {};
  return fail(ErrorCode::kInvalidArgument,
              format("{} is {:g}: give a fraction of the device, {} to 100%", name, value,
                     may_be_zero ? "0" : "more than 0"));
}

}  // namespace

std::optional<Class> parse_class(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<Class>(i);
  return std::nullopt;
}

std::string_view class_name(Class cls) {
  return kNames[static_cast<std::size_t>(cls)];
}

Status check(const Share& share) {
  SLUICE_CHECK(check_fraction("guarantee", share.guarantee, true));
  SLUICE_CHECK(check_fraction("limit", share.limit, false));
  if (share.guarantee > share.limit)
    return fail(ErrorCode::kInvalidArgument, format("the guarantee ({:g}) is over the limit ({:g})",
                                                    share.guarantee, share.limit));
  if (!(share.weight >= kWeightMin && share.weight <= kWeightMax))
    return fail(ErrorCode::kInvalidArgument,
                format("weight is {:g}: give {:g} to {:g}", share.weight, kWeightMin, kWeightMax));
  return {};
}

}  // namespace sluice::scheduler
