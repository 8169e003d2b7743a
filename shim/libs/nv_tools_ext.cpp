// libnvToolsExt.so.1: marks and ranges for a profiler. Without one they do nothing, here as there:
// pushes and pops say that nobody tracks them (NVTX_NO_PUSH_POP_TRACKING), ids and handles are 0.
#include <cstdint>

namespace {

constexpr int kNoPushPopTracking = -2;

}  // namespace

#define SLUICE_UNTRACKED(name)                                      \
  extern "C" __attribute__((visibility("default"))) int name(...) { \
    return kNoPushPopTracking;                                      \
  }
#define SLUICE_SILENT(name)                                                   \
  extern "C" __attribute__((visibility("default"))) std::uint64_t name(...) { \
    return 0;                                                                 \
  }

#include "shim/libs/nvToolsExt.def"
