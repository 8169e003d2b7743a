#include "lanes.h"

#include "in_child.h"

#include <cstdlib>
#include <map>
#include <utility>

namespace sluice::bench {
namespace {

std::string lanes_text(unsigned count) {
  return std::to_string(count) + (count == 1 ? " lane" : " lanes");
}

}  // namespace

std::vector<Figure> measure_lanes(const std::string& library, CallOptions options,
                                  const std::vector<unsigned>& counts) {
  const unsigned repeats = std::exchange(options.repeats, 1);
  options.has_calls = false;
  std::vector<Figure> copies;  // of one session: names and units
  std::map<std::pair<std::string, unsigned>, std::vector<double>> measured;
  for (unsigned i = 0; i < repeats; ++i)
    for (const unsigned count : counts) {
      ::setenv("SLUICE_LANES", std::to_string(count).c_str(), 1);
      copies = measure_in_child([&] { return measure_calls(library, options); });
      for (const Figure& f : copies) measured[{f.name, count}].push_back(f.value);
    }
  const auto median = [&](const Figure& f, unsigned count) {
    return quantile(measured[{f.name, count}], 0.5);
  };
  std::vector<Figure> out;
  for (const Figure& f : copies)
    for (const unsigned count : counts)
      out.push_back({f.name + ", " + lanes_text(count), f.unit, median(f, count),
                     lanes_text(counts.front()), median(f, counts.front())});
  return out;
}

}  // namespace sluice::bench
