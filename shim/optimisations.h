// What can be switched off, one at a time, to find out which of it a problem depends on
// (SLUICE_DISABLE, docs/observability.md).
#pragma once

#include <string>
#include <string_view>

namespace sluice::shim {

struct Optimisations {
  bool posted_calls = true;     ///< calls that need no answer do not wait for one
  bool batching = true;         ///< records gather before they are sent
  bool idle_flush = true;       ///< a record for an idle server is sent at once
  bool inline_payloads = true;  ///< short payloads are copied into the batch
  bool arena = true;            ///< freed device memory is kept for the next allocation
  bool local_queries = true;    ///< events and streams are asked without a round trip
};

/// A comma list of names. *unknown gets a line that names the first unknown one and all known ones;
/// empty if there is none.
Optimisations parse_disabled(std::string_view list, std::string* unknown);
/// From SLUICE_DISABLE; an unknown name is an error line in the log.
Optimisations optimisations_from_environment();

}  // namespace sluice::shim
