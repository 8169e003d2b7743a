#include "scheduler/device/bucket.h"

#include <algorithm>
#include <cmath>

namespace sluice::scheduler {

void Bucket::refill(Time now, double rate) {
  const double depth_ns = static_cast<double>(kDepth.count()) * std::min(rate, 1.0);
  if (is_new_ || now < filled_at_) filled_at_ = now;
  is_new_ = false;
  const auto passed_ns = static_cast<double>((now - filled_at_).count());
  filled_at_ = now;
  level_ns_ = rate >= 1 ? depth_ns : std::min(level_ns_ + rate * passed_ns, depth_ns);
}

void Bucket::bound_debt(Duration debt) {
  level_ns_ = std::max(level_ns_, -static_cast<double>(debt.count()));
}

Time Bucket::opens_at(Time now, double rate) const {
  if (is_open() || rate <= 0) return now;
  return now + Duration(static_cast<Duration::rep>(std::ceil(-level_ns_ / rate)));
}

}  // namespace sluice::scheduler
