// Copies over different numbers of bulk lanes, in turn: what SLUICE_LANES is worth on a wire.
#pragma once

#include "calls.h"
#include "figure.h"

#include <string>
#include <vector>

namespace sluice::bench {

/// One session for each count and repeat, its copies measured once; the medians, each beside that
/// of the first count.
std::vector<Figure> measure_lanes(const std::string& library, CallOptions options,
                                  const std::vector<unsigned>& counts);

}  // namespace sluice::bench
