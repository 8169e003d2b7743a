// Start and stop of profiling have no effect where no profiler is attached, and to the shim none
// can be.
#include "shim/api.h"

#include <cudaProfiler.h>

using namespace sluice;
using namespace sluice::shim;

SLUICE_API cuProfilerStart() {
  return enter_needing(wire::Fn::cuProfilerStart, wire::Needs::kContext);
}

SLUICE_API cuProfilerStop() {
  return enter_needing(wire::Fn::cuProfilerStop, wire::Needs::kContext);
}
