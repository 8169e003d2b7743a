// `sluicectl cert`: makes certificates and says what to put where. Needs no server.
#pragma once

#include <string>
#include <vector>

namespace sluice::tool {

struct CertOptions {
  std::string folder, tenant;
  std::vector<std::string> hosts;
  int days = 0;  ///< 0: the default of the command
  bool is_forced = false;
};

int init_certificates(const CertOptions& options);
int issue_certificate(const CertOptions& options);

}  // namespace sluice::tool
