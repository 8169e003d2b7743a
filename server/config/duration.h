// The names of this folder for what common/duration.h offers.
#pragma once

#include "common/duration.h"

namespace sluice::config {

using sluice::duration_text;
using sluice::parse_duration;

}  // namespace sluice::config
