#include "shim/optimisations.h"

#include "common/log.h"

#include <cstdlib>

namespace sluice::shim {
namespace {

struct Named {
  std::string_view name;
  bool Optimisations::*member;
};
constexpr Named kNames[] = {{"posted-calls", &Optimisations::posted_calls},
                            {"batching", &Optimisations::batching},
                            {"idle-flush", &Optimisations::idle_flush},
                            {"inline-payloads", &Optimisations::inline_payloads},
                            {"arena", &Optimisations::arena},
                            {"local-queries", &Optimisations::local_queries}};

}  // namespace

Optimisations parse_disabled(std::string_view list, std::string* unknown) {
  Optimisations out;
  unknown->clear();
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view name = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
    if (name.empty()) continue;
    bool is_known = false;
    for (const Named& named : kNames) {
      if (named.name != name) continue;
      out.*named.member = false;
      is_known = true;
    }
    if (is_known || !unknown->empty()) continue;
    *unknown = "SLUICE_DISABLE: \"" + std::string(name) + "\" is none of";
    for (const Named& named : kNames) *unknown += ' ' + std::string(named.name);
  }
  return out;
}

Optimisations optimisations_from_environment() {
  const char* list = std::getenv("SLUICE_DISABLE");
  std::string unknown;
  const Optimisations out = parse_disabled(list != nullptr ? list : "", &unknown);
  if (!unknown.empty()) SLUICE_LOG_ERROR("session", "{}", unknown);
  return out;
}

}  // namespace sluice::shim
