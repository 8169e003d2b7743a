#include "scheduler/pool/model/resources.h"

#include "common/format.h"
#include "common/size.h"

namespace sluice::pool {

std::string amount_text(Resource resource, std::int64_t amount) {
  switch (resource) {
    case Resource::kCompute: {
      std::string out =
          format("{:.3f}", static_cast<double>(amount) / static_cast<double>(kDevicePermille));
      out.erase(out.find_last_not_of('0') + 1);
      if (out.ends_with('.')) out.pop_back();
      return out + (amount == kDevicePermille ? " GPU" : " GPUs");
    }
    case Resource::kMemory:
      return size_text(static_cast<std::uint64_t>(std::max<std::int64_t>(amount, 0)));
  }
  return {};
}

const char* resource_name(Resource resource) {
  return resource == Resource::kCompute ? "compute" : "memory";
}

}  // namespace sluice::pool
