#include "server/broker/usage.h"

#include <algorithm>
#include <utility>

namespace sluice::server {

void Usage::note(Time now, Totals totals) {
  if (!looks_.empty() && now - looks_.back().when < kStep) return;
  looks_.push_back({now, std::move(totals)});
  while (looks_.size() > 1 && now - looks_[1].when >= kWindow) looks_.pop_front();
}

Usage::Recent Usage::recent(Time now, const Totals& totals) const {
  Recent out;
  out.busy.resize(totals.size());
  if (looks_.empty()) return out;
  // The youngest that is old enough, else the oldest.
  auto from = looks_.begin();
  for (auto next = from; next != looks_.end() && now - next->when >= kWindow; ++next) from = next;
  out.window = std::max(now - from->when, Time::duration(0));
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const Duration before = i < from->totals.size() ? from->totals[i] : Duration(0);
    out.busy[i] = std::clamp(totals[i] - before, Duration(0), out.window);
  }
  return out;
}

void add_to(Usage::Totals& sum, const Usage::Totals& more) {
  sum.resize(std::max(sum.size(), more.size()));
  for (std::size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
}

}  // namespace sluice::server
