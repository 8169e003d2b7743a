#include "server/config/kinds_text.h"

#include "common/format.h"
#include "common/size.h"

namespace sluice::config {

std::string kinds_text(const server::MemoryByKind& kinds) {
  std::string out;
  for (std::size_t i = 0; i < server::kMemoryKindCount; ++i)
    if (kinds[i] > 0)
      out += format("{}{} {}", out.empty() ? "" : ", ", server::kMemoryKindNames[i],
                    size_text(kinds[i]));
  return out.empty() ? "-" : out;
}

}  // namespace sluice::config
