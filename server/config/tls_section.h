// [tls] and what follows from it: which listen addresses are safe enough.
#pragma once

#include "server/config/config.h"
#include "server/config/section.h"

namespace sluice::config {

Status read_tls(const toml::table& table, const std::string& path,
                transport::tls::ServerSettings* out);
/// Err names the key, and what to set.
Status check_encryption(const Config& config);

}  // namespace sluice::config
