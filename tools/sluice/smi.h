// `sluice smi`: what a tenant has of the server's devices, in the manner of nvidia-smi. It asks the
// broker and makes no session.
#pragma once

#include "tools/sluice/settings.h"

#include <string>

namespace sluice::tool {

struct SmiOptions {
  bool lists = false;         ///< -L
  std::string query_gpu;      ///< --query-gpu: fields
  std::string query_apps;     ///< --query-compute-apps: fields
  bool lists_fields = false;  ///< --help-query-gpu
  std::string format;         ///< csv[,noheader][,nounits]
  std::string device;         ///< -i: a number, UUID or PCI address; empty: all
  double interval_s = 0;      ///< -l; 0: once
};

/// The exit status.
int smi(Settings settings, const SmiOptions& options);

}  // namespace sluice::tool
