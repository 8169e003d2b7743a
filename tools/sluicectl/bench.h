// `sluicectl bench quota`: what the division of a device's time promises, measured in virtual time.
#pragma once

namespace sluice::tool {

/// Needs no server. 0: every promise is kept; 1: one is not.
int bench_quota(bool as_json);

}  // namespace sluice::tool
