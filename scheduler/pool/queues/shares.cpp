#include "scheduler/pool/queues/shares.h"

#include "scheduler/pool/queues/fair_share.h"

#include <algorithm>
#include <limits>

namespace sluice::pool {
namespace {

void divide_among(const QueueTree& tree, std::span<const std::size_t> siblings, Resource resource,
                  std::int64_t amount, const Resources& capacity,
                  const std::vector<Resources>& wanted, const Usage& usage,
                  const FairShareOptions& options, std::vector<Resources>* out) {
  std::vector<Claim> claims;
  for (const std::size_t i : siblings) {
    const Entitlement& of = tree.spec(i)[resource];
    claims.push_back({.guarantee = tree.guarantee(i)[resource],
                      .wanted = wanted[i][resource],
                      .weight = of.weight,
                      .priority = of.priority,
                      .usage = usage.fraction(tree.spec(i).name, resource, capacity)});
  }
  const auto shares = divide(amount, claims, options.history, options.unit[resource]);
  for (std::size_t j = 0; j < siblings.size(); ++j) (*out)[siblings[j]][resource] = shares[j];
}

/// What queues can make use of: a parent no more than its children together within their limits.
std::vector<Resources> within_limits(const QueueTree& tree, std::vector<Resources> wanted) {
  for (std::size_t i = tree.size(); i-- > 0;) {
    if (!tree.is_leaf(i)) wanted[i] = {};
    for (const std::size_t child : tree.children(i)) wanted[i] += wanted[child];
    for (const Resource resource : kResources)
      if (const auto limit = tree.spec(i)[resource].limit)
        wanted[i][resource] = std::min(wanted[i][resource], *limit);
  }
  return wanted;
}

}  // namespace

std::vector<Resources> fair_shares(const QueueTree& tree, const Resources& capacity,
                                   const std::vector<Resources>& asked, const Usage& usage,
                                   const FairShareOptions& options) {
  const std::vector<Resources> wanted = within_limits(tree, asked);
  std::vector<Resources> out(tree.size());
  for (const Resource resource : kResources) {
    divide_among(tree, tree.roots(), resource, capacity[resource], capacity, wanted, usage, options,
                 &out);
    for (std::size_t i = 0; i < tree.size(); ++i)  // parents come first
      if (!tree.is_leaf(i))
        divide_among(tree, tree.children(i), resource, out[i][resource], capacity, wanted, usage,
                     options, &out);
  }
  return out;
}

double saturation(const Resources& allocated, const Resources& fair_share) {
  double most = 0;
  for (const Resource resource : kResources) {
    if (allocated[resource] <= 0) continue;
    if (fair_share[resource] <= 0) return std::numeric_limits<double>::infinity();
    most = std::max(
        most, static_cast<double>(allocated[resource]) / static_cast<double>(fair_share[resource]));
  }
  return most;
}

}  // namespace sluice::pool
