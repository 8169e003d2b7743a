// PCI addresses as text: "0000:01:00.0", also without domain or function.
#pragma once

#include <cstdio>
#include <optional>
#include <string>

namespace sluice::nvml {

struct PciAddress {
  unsigned domain = 0, bus = 0, device = 0;

  bool operator==(const PciAddress&) const = default;
};

/// A GPU is a function 0: what is said of it is not looked at.
inline std::optional<PciAddress> parse_pci_address(const std::string& text) {
  PciAddress out;
  unsigned function = 0;
  char rest = 0;
  const int whole = std::sscanf(text.c_str(), "%8x:%2x:%2x.%1x%c", &out.domain, &out.bus,
                                &out.device, &function, &rest);
  if (whole == 3 || whole == 4) return out;
  out.domain = 0;
  const int part =
      std::sscanf(text.c_str(), "%2x:%2x.%1x%c", &out.bus, &out.device, &function, &rest);
  if (part == 2 || part == 3) return out;
  return std::nullopt;
}

}  // namespace sluice::nvml
