// The settings of a tenant's share of the devices' time, each of which may be left as it was: the
// same four keys in sluiced.toml, in what sluicectl has changed, and on its command line.
#pragma once

#include "common/result.h"
#include "scheduler/device/share.h"

#include <optional>
#include <string>

namespace sluice::config {

class Section;

struct ShareChange {
  std::optional<double> guarantee, limit, weight;
  std::optional<scheduler::Class> cls;

  bool operator==(const ShareChange&) const = default;
  /// Where `later` says something, it wins.
  void merge(const ShareChange& later);
  [[nodiscard]] scheduler::Share applied_to(scheduler::Share share) const;
};

/// Keys compute, compute_limit, weight and class.
Result<ShareChange> read_share(Section& section);
/// Err(kInvalidArgument) names the classes.
Result<scheduler::Class> parse_class(const std::string& text);

}  // namespace sluice::config
