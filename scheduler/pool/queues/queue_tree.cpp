#include "scheduler/pool/queues/queue_tree.h"

#include "common/format.h"
#include "common/nearest.h"

#include <algorithm>
#include <set>

namespace sluice::pool {
namespace {

tl::unexpected<Error> wrong(const std::string& queue, const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, format("queue \"{}\": {}", queue, what));
}

Status check_spec(const QueueSpec& spec) {
  if (spec.name.empty())
    return fail(ErrorCode::kInvalidArgument, "a queue has no name: give it one");
  for (const Resource resource : kResources) {
    const Entitlement& of = spec[resource];
    const char* const name = resource_name(resource);
    if (of.guarantee < 0 || (of.limit && *of.limit < 0))
      return wrong(spec.name, format("less than no {} as guarantee or limit", name));
    if (of.limit && of.guarantee > *of.limit)
      return wrong(spec.name, format("the {} guarantee of {} is above the limit of {}: raise the "
                                     "limit or lower the guarantee",
                                     name, amount_text(resource, of.guarantee),
                                     amount_text(resource, *of.limit)));
    if (!(of.weight >= scheduler::kWeightMin && of.weight <= scheduler::kWeightMax))
      return wrong(spec.name, format("the {} weight {} is not from {} to {}", name, of.weight,
                                     scheduler::kWeightMin, scheduler::kWeightMax));
  }
  if (!(spec.overcommit >= 1 && spec.overcommit <= kOvercommitMax))
    return wrong(spec.name,
                 format("overcommit {} is not from 1 to {}", spec.overcommit, kOvercommitMax));
  if (spec.min_runtime < Duration(0) || spec.reserve_after < Duration(0))
    return wrong(spec.name, "min_runtime or reserve_after is less than no time");
  return {};
}

std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& known) {
  const std::string_view like = nearest(name, known);
  return like.empty() ? "" : format("; did you mean \"{}\"?", like);
}

/// Parents before children.
Result<std::vector<QueueSpec>> in_order(std::vector<QueueSpec> specs) {
  std::vector<std::string_view> names;
  for (const QueueSpec& spec : specs) names.push_back(spec.name);
  for (const QueueSpec& spec : specs)
    if (!spec.parent.empty() && std::find(names.begin(), names.end(), spec.parent) == names.end())
      return wrong(spec.name, format("its parent \"{}\" is no queue{}", spec.parent,
                                     did_you_mean(spec.parent, names)));
  std::vector<QueueSpec> out;
  std::set<std::string, std::less<>> done = {""};
  std::vector<bool> is_out(specs.size());
  for (std::size_t depth = 0; out.size() < specs.size(); ++depth) {
    const std::set<std::string, std::less<>> above = done;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (is_out[i] || !above.contains(specs[i].parent)) continue;
      if (depth >= QueueTree::kDepthMax)
        return wrong(specs[i].name, format("it is more than {} levels deep", QueueTree::kDepthMax));
      is_out[i] = true;
      if (!done.insert(specs[i].name).second)
        return wrong(specs[i].name, "there are two of that name: rename one");
      out.push_back(specs[i]);
    }
    if (done.size() == above.size()) {
      const auto stuck = std::find(is_out.begin(), is_out.end(), false);
      return wrong(specs[static_cast<std::size_t>(stuck - is_out.begin())].name,
                   "it is above itself in the tree: give one of the circle another parent");
    }
  }
  return out;
}

}  // namespace

Result<QueueTree> QueueTree::make(std::vector<QueueSpec> specs) {
  if (specs.size() > kQueuesMax)
    return fail(ErrorCode::kInvalidArgument,
                format("{} queues: at most {}", specs.size(), kQueuesMax));
  for (const QueueSpec& spec : specs) SLUICE_CHECK(check_spec(spec));
  QueueTree out;
  SLUICE_TRY(out.specs_, in_order(std::move(specs)));
  const std::size_t count = out.specs_.size();
  out.children_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const QueueSpec& spec = out.specs_[i];
    out.by_name_.emplace(spec.name, i);
    out.guarantees_.push_back({.compute_permille = spec[Resource::kCompute].guarantee,
                               .memory_bytes = spec[Resource::kMemory].guarantee});
    out.parents_.push_back(out.find(spec.parent));
    (out.parents_[i] ? out.children_[*out.parents_[i]] : out.roots_).push_back(i);
  }
  for (std::size_t i = count; i-- > 0;) {
    Resources below;
    for (const std::size_t child : out.children_[i]) below += out.guarantees_[child];
    for (const Resource resource : kResources) {
      std::int64_t& own = out.guarantees_[i][resource];
      if (own > 0 && below[resource] > own)
        return wrong(out.specs_[i].name,
                     format("its children are guaranteed {} of {} together, itself only {}",
                            amount_text(resource, below[resource]), resource_name(resource),
                            amount_text(resource, own)));
      own = std::max(own, below[resource]);
      const auto limit = out.specs_[i][resource].limit;
      if (limit && own > *limit)
        return wrong(out.specs_[i].name,
                     format("its children are guaranteed {} of {} together, above its limit of {}",
                            amount_text(resource, own), resource_name(resource),
                            amount_text(resource, *limit)));
    }
  }
  return out;
}

std::optional<std::size_t> QueueTree::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

Result<std::size_t> QueueTree::find_leaf(std::string_view name) const {
  const auto found = find(name);
  if (found && is_leaf(*found)) return *found;
  std::vector<std::string_view> leaves;
  for (std::size_t i = 0; i < size(); ++i)
    if (is_leaf(i)) leaves.push_back(specs_[i].name);
  if (found)
    return fail(ErrorCode::kNotFound,
                format("queue \"{}\" has queues below it: name one of them, e.g. \"{}\"", name,
                       specs_[children_[*found].front()].name));
  return fail(ErrorCode::kNotFound,
              format("there is no queue \"{}\"{}", name, did_you_mean(name, leaves)));
}

std::vector<std::size_t> QueueTree::path(std::size_t queue) const {
  std::vector<std::size_t> out = {queue};
  while (parents_[out.back()]) out.push_back(*parents_[out.back()]);
  return out;
}

std::vector<Resources> sum_up(const QueueTree& tree, std::vector<Resources> amounts) {
  for (std::size_t i = tree.size(); i-- > 0;) {
    if (tree.is_leaf(i)) continue;
    amounts[i] = {};
    for (const std::size_t child : tree.children(i)) amounts[i] += amounts[child];
  }
  return amounts;
}

}  // namespace sluice::pool
