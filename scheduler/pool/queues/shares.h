// The fair share of every queue of the tree: what a parent has is divided among its children.
#pragma once

#include "scheduler/pool/queues/usage.h"

#include <vector>

namespace sluice::pool {

struct FairShareOptions {
  /// How much the past counts: KAI's k.
  double history = 0.5;
  /// What cannot be divided further: a whole device, a GiB.
  Resources unit{.compute_permille = kDevicePermille, .memory_bytes = std::int64_t{1} << 30};
};

/// By place in the tree. `asked` = what each leaf has and what waits in it.
std::vector<Resources> fair_shares(const QueueTree& tree, const Resources& capacity,
                                   const std::vector<Resources>& asked, const Usage& usage,
                                   const FairShareOptions& options);

/// How much of its fair share a queue has, by the resource of which it has most (dominant resource
/// fairness); above 1: it has more.
double saturation(const Resources& allocated, const Resources& fair_share);

}  // namespace sluice::pool
