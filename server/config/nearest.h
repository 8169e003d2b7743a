// The names of this folder for what common/nearest.h offers.
#pragma once

#include "common/nearest.h"

namespace sluice::config {

using sluice::nearest;

}  // namespace sluice::config
