#include "scheduler/pool/queues/fair_share.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace sluice::pool {
namespace {

/// Everybody's guarantee; less, in proportion, when the pool has become smaller than they are
/// together. Returns what is left.
std::int64_t give_guarantees(std::int64_t capacity, std::span<const Claim> claims,
                             std::vector<std::int64_t>* shares) {
  double sum = 0;
  for (const Claim& claim : claims)
    sum += static_cast<double>(std::min(claim.guarantee, claim.wanted));
  const double scale =
      sum > static_cast<double>(capacity) ? static_cast<double>(capacity) / sum : 1;
  std::int64_t left = capacity;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const std::int64_t due = std::min(claims[i].guarantee, claims[i].wanted);
    (*shares)[i] = scale < 1 ? static_cast<std::int64_t>(static_cast<double>(due) * scale) : due;
    left -= (*shares)[i];
  }
  return std::max<std::int64_t>(left, 0);
}

/// Each one's part of what is left, by weight and history; by weight alone if all have had so much
/// that nobody would get anything.
std::vector<double> parts_of(std::span<const Claim> claims, const std::vector<std::size_t>& group,
                             double history) {
  double weights = 0;
  for (const std::size_t i : group) weights += claims[i].weight;
  std::vector<double> parts;
  double sum = 0;
  for (const std::size_t i : group) {
    const double weight = claims[i].weight / weights;
    parts.push_back(std::max(0.0, weight + history * (weight - claims[i].usage)));
    sum += parts.back();
  }
  if (sum <= 0) {
    sum = 1;
    for (std::size_t j = 0; j < group.size(); ++j) parts[j] = claims[group[j]].weight / weights;
  }
  for (double& part : parts) part /= sum;
  return parts;
}

/// The rest in whole units: first to the largest remainders.
std::int64_t give_remainders(std::int64_t left, std::int64_t unit, std::span<const Claim> claims,
                             const std::vector<std::size_t>& group, const std::vector<double>& due,
                             std::vector<std::int64_t>* shares) {
  std::vector<std::size_t> order(group.size());
  for (std::size_t j = 0; j < order.size(); ++j) order[j] = j;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto remainder = [&](std::size_t j) {
      return std::fmod(due[j], static_cast<double>(unit));
    };
    return remainder(a) > remainder(b);
  });
  for (bool has_given = true; left > 0 && has_given;) {
    has_given = false;
    for (const std::size_t j : order) {
      std::int64_t& share = (*shares)[group[j]];
      const std::int64_t more = std::min({unit, left, claims[group[j]].wanted - share});
      if (more <= 0) continue;
      share += more;
      left -= more;
      has_given = true;
    }
  }
  return left;
}

/// What is left, among those of one priority. Rounds: whoever wants less than its part is
/// satisfied, and the others divide the rest anew. Returns what nobody wants.
std::int64_t give_surplus(std::int64_t left, std::span<const Claim> claims,
                          std::vector<std::size_t> group, double history, std::int64_t unit,
                          std::vector<std::int64_t>* shares) {
  while (left > 0) {
    std::erase_if(group, [&](std::size_t i) { return (*shares)[i] >= claims[i].wanted; });
    if (group.empty()) return left;
    const std::vector<double> parts = parts_of(claims, group, history);
    std::int64_t given = 0;
    for (std::size_t j = 0; j < group.size(); ++j) {
      const std::int64_t missing = claims[group[j]].wanted - (*shares)[group[j]];
      if (static_cast<double>(missing) > parts[j] * static_cast<double>(left)) continue;
      (*shares)[group[j]] += missing;
      given += missing;
    }
    left -= given;
    if (given > 0) continue;
    // Nobody is satisfied by its part: whole units of it, and the remainders.
    std::vector<double> due;
    const std::int64_t before = left;
    for (std::size_t j = 0; j < group.size(); ++j) {
      due.push_back(parts[j] * static_cast<double>(before));
      const auto whole = static_cast<std::int64_t>(due[j]) / unit * unit;
      const std::int64_t more = std::min(whole, left);
      (*shares)[group[j]] += more;
      left -= more;
    }
    return give_remainders(left, unit, claims, group, due, shares);
  }
  return left;
}

}  // namespace

std::vector<std::int64_t> divide(std::int64_t capacity, std::span<const Claim> claims,
                                 double history, std::int64_t unit) {
  std::vector<std::int64_t> shares(claims.size());
  std::int64_t left = give_guarantees(capacity, claims, &shares);
  std::set<int, std::greater<>> priorities;
  for (const Claim& claim : claims) priorities.insert(claim.priority);
  for (const int priority : priorities) {
    std::vector<std::size_t> group;
    for (std::size_t i = 0; i < claims.size(); ++i)
      if (claims[i].priority == priority) group.push_back(i);
    left = give_surplus(left, claims, std::move(group), history, unit, &shares);
  }
  return shares;
}

}  // namespace sluice::pool
