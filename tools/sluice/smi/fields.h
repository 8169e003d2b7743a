// The values that `sluice smi --query-gpu` and `--query-compute-apps` know, under nvidia-smi's
// names.
#pragma once

#include "common/result.h"
#include "protocol/slice_status.h"

#include <string>
#include <vector>

namespace sluice::tool {

inline constexpr const char* kNoValue = "[N/A]";

struct CsvFormat {
  bool has_header = true, has_units = true;
};
/// "csv", "csv,noheader,nounits". Err(kInvalidArgument).
Result<CsvFormat> parse_csv_format(const std::string& text);

/// The lines of a query. Err(kInvalidArgument): a field that is none, with the nearest that is one.
Result<std::string> query_gpus(const wire::SliceStatus& status,
                               const std::vector<std::size_t>& devices, const std::string& fields,
                               const CsvFormat& format);
Result<std::string> query_apps(const wire::SliceStatus& status,
                               const std::vector<std::size_t>& devices, const std::string& fields,
                               const CsvFormat& format);
/// One line for each field, with what it means.
std::string help_on_fields();

/// "00000000:01:00.0", as nvidia-smi writes "0000:01:00.0".
std::string long_bus_id(const std::string& bus_id);

}  // namespace sluice::tool
