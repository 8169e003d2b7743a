// How sluicectl shows what the server says: JSON with stable names and plain numbers (bytes,
// milliseconds), or tables.
#pragma once

#include "server/control/types.h"
#include "tools/table.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace sluice::tool {

nlohmann::json json_of(const server::control::ServerInfo& server);
nlohmann::json json_of(const server::control::SessionInfo& session);
nlohmann::json json_of(const server::control::TenantInfo& tenant);
template <class Value>
nlohmann::json json_of(const std::vector<Value>& values) {
  nlohmann::json out = nlohmann::json::array();
  for (const Value& value : values) out.push_back(json_of(value));
  return out;
}

std::string table_of(const std::vector<server::control::SessionInfo>& sessions);
std::string table_of(const std::vector<server::control::TenantInfo>& tenants);
/// One line per setting.
std::string text_of(const server::control::TenantInfo& tenant);

/// One line of JSON on stdout; what is no UTF-8 is replaced.
void print_json(const nlohmann::json& value);

}  // namespace sluice::tool
