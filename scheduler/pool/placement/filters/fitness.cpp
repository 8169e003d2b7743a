// What a device is: healthy, of the kind and model and capability that is asked for, whole or cut
// into instances.
#include "common/format.h"
#include "scheduler/pool/placement/filter.h"

#include <algorithm>
#include <cctype>

namespace sluice::pool {
namespace {

bool contains_in_any_case(const std::string& text, const std::string& part) {
  const auto is_same = [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), is_same) != text.end();
}

}  // namespace

Objection filter_fitness(const View& view, const Place& place, const Request& request) {
  const Device& device = view.snapshot.device(place.at);
  if (!device.is_healthy) return Refusal{.cause = Cause::kUnhealthy};
  if (!request.kind.empty() && device.kind != request.kind)
    return Refusal{.cause = Cause::kKind, .what = device.kind};
  if (!request.model.empty() && !contains_in_any_case(device.model, request.model))
    return Refusal{.cause = Cause::kModel, .what = device.model};
  if (device.capability < request.capability)
    return Refusal{
        .cause = Cause::kCapability,
        .what = format("{}.{}, needs {}.{}", device.capability.major, device.capability.minor,
                       request.capability.major, request.capability.minor)};
  if (request.isolation == Isolation::kInstance && !place.instance)
    return Refusal{.cause = Cause::kInstances, .what = "is not cut into instances"};
  if (request.isolation == Isolation::kExclusive && place.instance)
    return Refusal{.cause = Cause::kInstances,
                   .what = "is cut into instances, needs whole devices"};
  return {};
}

}  // namespace sluice::pool
