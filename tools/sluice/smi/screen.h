// The table that `sluice smi` shows without options, and the list of -L.
#pragma once

#include "protocol/slice_status.h"

#include <string>
#include <vector>

namespace sluice::tool {

std::string smi_table(const wire::SliceStatus& status, const std::vector<std::size_t>& devices);
std::string smi_list(const wire::SliceStatus& status, const std::vector<std::size_t>& devices);

}  // namespace sluice::tool
