#include "server/worker/bundles.h"

#include <algorithm>

namespace sluice::server {

void Bundles::add(std::uint64_t key, Time now) {
  if (filling_.keys.empty()) filling_.since = now;
  const auto known = model_.estimate(key);
  filling_.has_unknown |= !known;
  filling_.keys.push_back(key);
  filling_.estimate += known.value_or(kUnknown);
  estimate_ += known.value_or(kUnknown);
  ++count_;
}

bool Bundles::is_full_for(std::uint64_t key, Duration length, std::size_t count_max) const {
  if (filling_.keys.empty()) return false;
  return filling_.has_unknown || filling_.estimate >= length || filling_.keys.size() >= count_max ||
         !model_.estimate(key);
}

bool Bundles::close() {
  if (filling_.keys.empty()) return false;
  closed_.push_back(std::move(filling_));
  filling_ = {};
  return true;
}

void Bundles::complete(Time now) {
  if (closed_.empty()) return;
  const Bundle bundle = std::move(closed_.front());
  closed_.pop_front();
  count_ -= bundle.keys.size();
  estimate_ -= bundle.estimate;
  // The device was busy with it since it had finished what came before, or since it was issued.
  learn(bundle, std::max(now - std::max(bundle.since, completed_at_), Duration(0)));
  completed_at_ = now;
}

/// By what was known when it was issued: who costs half of it pays half of what it was wrong by.
void Bundles::learn(const Bundle& bundle, Duration actual) {
  if (bundle.keys.size() == 1) return model_.learn(bundle.keys.front(), actual);
  const double scale = static_cast<double>(actual.count()) /
                       std::max(1.0, static_cast<double>(bundle.estimate.count()));
  std::vector<std::pair<std::uint64_t, Duration>> parts;
  parts.reserve(bundle.keys.size());
  for (const std::uint64_t key : bundle.keys) {
    const auto estimated = static_cast<double>(estimate(key).count());
    parts.emplace_back(key, Duration(static_cast<Duration::rep>(estimated * scale)));
  }
  for (const auto& [key, part] : parts) model_.learn(key, part);
}

}  // namespace sluice::server
