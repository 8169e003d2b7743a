// What Sluice has promised itself (docs/transports.md, "Targets"), each beside what was measured
// and the raw limit of the same run.
#pragma once

#include "figure.h"

#include <string>
#include <vector>

namespace sluice::bench {

/// Figures of one transport, or of "channel KIND".
struct Measurement {
  std::string of;
  std::vector<Figure> figures;
};

struct Row {
  std::string of, target;  ///< "at most 1.3 x raw"
  Figure figure;
  bool is_measured = false;
  bool is_met = false;
};

/// One row for each target, in a fixed order; those without a figure say so.
std::vector<Row> judge_targets(const std::vector<Measurement>& measured);
/// The worker's own part of a launch, no more than what is left when the driver's is taken away.
Figure launch_in_worker(const std::vector<Figure>& through_sluice,
                        const std::vector<Figure>& driver_alone);
void print_targets(const std::string& output, const std::vector<Row>& rows, double load_before,
                   double load_after);

}  // namespace sluice::bench
