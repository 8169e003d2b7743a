// Near those with some labels, or not on their nodes. What a lease keeps away, it keeps away in
// both directions: else the order of arrival would decide whether two are together.
#include "scheduler/pool/placement/filter.h"

#include <algorithm>

namespace sluice::pool {
namespace {

bool has_all(const Labels& labels, const Labels& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& label) {
    const auto found = labels.find(label.first);
    return found != labels.end() && found->second == label.second;
  });
}

std::string text(const Labels& labels) {
  std::string out;
  for (const auto& [key, value] : labels) out += (out.empty() ? "" : ",") + key + "=" + value;
  return out;
}

}  // namespace

Objection filter_affinity(const View& view, std::size_t node, const Request& request) {
  const auto& leases = view.snapshot.leases();
  bool is_near = request.affinity.empty();
  for (const LeaseId id : view.snapshot.leases_on(node)) {
    const Lease& lease = leases.at(id);
    is_near = is_near || has_all(lease.labels, request.affinity);
    if (!request.anti_affinity.empty() && has_all(lease.labels, request.anti_affinity))
      return Refusal{.cause = Cause::kAntiAffinity, .what = text(request.anti_affinity)};
    if (!lease.anti_affinity.empty() && has_all(request.labels, lease.anti_affinity))
      return Refusal{.cause = Cause::kAntiAffinity,
                     .what = "anti-affinity to " + text(lease.anti_affinity)};
  }
  if (!is_near) return Refusal{.cause = Cause::kAffinity, .what = text(request.affinity)};
  return {};
}

}  // namespace sluice::pool
