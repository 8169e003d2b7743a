#include "scheduler/pool/placement/refusal.h"

#include "common/format.h"
#include "scheduler/pool/model/resources.h"

namespace sluice::pool {

std::string_view cause_name(Cause cause) {
  constexpr std::array<std::string_view, kCauseCount> kNames = {
      "cordoned",  "draining", "taint",   "node label", "affinity",  "anti-affinity",
      "unhealthy", "kind",     "model",   "capability", "instances", "reserved",
      "isolation", "class",    "compute", "memory",     "devices"};
  return kNames[static_cast<std::size_t>(cause)];
}

std::string refusal_text(const Refusal& refusal) {
  const std::string& what = refusal.what;
  const auto amounts = [&](Resource resource) {
    return format("needs {}, largest free {}", amount_text(resource, refusal.wanted),
                  amount_text(resource, refusal.found));
  };
  switch (refusal.cause) {
    case Cause::kCordoned:
      return "is cordoned";
    case Cause::kDraining:
      return "is drained";
    case Cause::kTaint:
      return format("has the taint {}, which the request does not tolerate", what);
    case Cause::kNodeLabel:
      return format("lacks the label {}", what);
    case Cause::kAffinity:
      return format("has no lease with {}", what);
    case Cause::kAntiAffinity:
      return format("has a lease with {}", what);
    case Cause::kUnhealthy:
      return "has no healthy device";
    case Cause::kKind:
    case Cause::kModel:
      return format("has {}", what);
    case Cause::kCapability:
      return format("has compute capability {}", what);
    case Cause::kInstances:
      return what;
    case Cause::kReserved:
      return format("is kept for job {}, which has waited long", refusal.found);
    case Cause::kIsolation:
    case Cause::kClass:
      return what;
    case Cause::kCompute:
      return amounts(Resource::kCompute);
    case Cause::kMemory:
      return amounts(Resource::kMemory);
    case Cause::kDevices:
      return format("needs {} devices, {} would do", refusal.wanted, refusal.found);
  }
  return {};
}

bool is_nearer(const Refusal& a, const Refusal& b) {
  return a.cause != b.cause ? a.cause > b.cause : a.found > b.found;
}

}  // namespace sluice::pool
