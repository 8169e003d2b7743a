// The names of this folder for what common/percent.h offers.
#pragma once

#include "common/percent.h"

namespace sluice::config {

using sluice::parse_percent;
using sluice::percent_text;

}  // namespace sluice::config
