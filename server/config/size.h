// The names of this folder for what common/size.h offers.
#pragma once

#include "common/size.h"

namespace sluice::config {

using sluice::parse_size;
using sluice::size_text;

}  // namespace sluice::config
