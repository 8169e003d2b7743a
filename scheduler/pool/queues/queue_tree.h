// The tree of queues: what each is entitled to of each resource.
#pragma once

#include "common/result.h"
#include "scheduler/pool/model/node.h"

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::pool {

/// Of one resource, in its unit.
struct Entitlement {
  std::int64_t guarantee = 0;         ///< it can always have so much, even by taking it back
  std::optional<std::int64_t> limit;  ///< it never has more
  double weight = 1;                  ///< its part of what is left, against its siblings'
  int priority = 0;                   ///< what is left is first offered to higher ones

  bool operator==(const Entitlement&) const = default;
};

struct QueueSpec {
  std::string name;
  std::string parent;  ///< empty: none
  std::array<Entitlement, kResourceCount> of;
  /// What a lease reserves of a device is its compute divided by this. Memory is never lent twice:
  /// there is no swap.
  double overcommit = 1;
  /// A job that has run for less is not preempted.
  Duration min_runtime = std::chrono::minutes(5);
  /// When its first job has waited for longer, devices are kept for it.
  Duration reserve_after = std::chrono::minutes(10);

  Entitlement& operator[](Resource resource) { return of[static_cast<std::size_t>(resource)]; }
  const Entitlement& operator[](Resource resource) const {
    return of[static_cast<std::size_t>(resource)];
  }
  bool operator==(const QueueSpec&) const = default;
};

inline constexpr double kOvercommitMax = 16;

/// A value. Queues are named by their place; a parent has a smaller one than its children.
class QueueTree {
 public:
  static constexpr std::size_t kQueuesMax = 4096;
  static constexpr std::size_t kDepthMax = 16;

  QueueTree() = default;
  /// Err(kInvalidArgument) names the queue, what is wrong with it, and the nearest known name.
  static Result<QueueTree> make(std::vector<QueueSpec> specs);

  [[nodiscard]] std::size_t size() const { return specs_.size(); }
  [[nodiscard]] const QueueSpec& spec(std::size_t queue) const { return specs_[queue]; }
  [[nodiscard]] std::span<const QueueSpec> specs() const { return specs_; }
  [[nodiscard]] std::optional<std::size_t> parent(std::size_t queue) const {
    return parents_[queue];
  }
  [[nodiscard]] std::span<const std::size_t> children(std::size_t queue) const {
    return children_[queue];
  }
  /// Queues without a parent.
  [[nodiscard]] std::span<const std::size_t> roots() const { return roots_; }
  /// Jobs wait in leaves only.
  [[nodiscard]] bool is_leaf(std::size_t queue) const { return children_[queue].empty(); }
  /// Err(kNotFound) names the nearest queue that jobs can wait in.
  [[nodiscard]] Result<std::size_t> find_leaf(std::string_view name) const;
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
  /// At least what its children are guaranteed together.
  [[nodiscard]] const Resources& guarantee(std::size_t queue) const { return guarantees_[queue]; }
  /// From the queue to its root.
  [[nodiscard]] std::vector<std::size_t> path(std::size_t queue) const;

 private:
  std::vector<QueueSpec> specs_;
  std::vector<std::optional<std::size_t>> parents_;
  std::vector<std::vector<std::size_t>> children_;
  std::vector<std::size_t> roots_;
  std::vector<Resources> guarantees_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

/// `amounts` of leaves (the others' are ignored), with those of all below added to each parent.
std::vector<Resources> sum_up(const QueueTree& tree, std::vector<Resources> amounts);

}  // namespace sluice::pool
