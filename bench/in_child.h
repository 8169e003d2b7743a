// Measuring in a process of its own: a client library serves one session, and its end is the
// process's.
#pragma once

#include "figure.h"

#include <functional>
#include <vector>

namespace sluice::bench {

/// Ends this process, too, if the other one fails; it has said why.
std::vector<Figure> measure_in_child(const std::function<std::vector<Figure>()>& measure);

}  // namespace sluice::bench
