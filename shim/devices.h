// The devices of the session as the application may see them: the handshake's records, chosen and
// numbered by CUDA_VISIBLE_DEVICES. Device queries are answered from here.
#pragma once

#include "protocol/bootstrap.h"

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace sluice::shim {

/// Ordinals of the visible devices, in the order in which the application numbers them. The list
/// ends before the first entry that names no device, or one named already; entries are ordinals or
/// GPU-<uuid>, abbreviated while unique. No list = all devices.
std::vector<std::uint32_t> visible_devices(std::optional<std::string_view> list,
                                           const std::vector<wire::DeviceRecord>& devices);

/// Immutable after construction.
class Devices {
 public:
  Devices() = default;
  Devices(std::vector<wire::DeviceRecord> all, std::optional<std::string_view> visible_list);

  [[nodiscard]] int count() const { return static_cast<int>(visible_.size()); }
  [[nodiscard]] bool has(CUdevice device) const { return device >= 0 && device < count(); }
  [[nodiscard]] const wire::DeviceRecord& record(CUdevice device) const {
    return all_[visible_[static_cast<std::size_t>(device)]];
  }
  /// The server's number for it.
  [[nodiscard]] std::uint32_t ordinal(CUdevice device) const {
    return visible_[static_cast<std::size_t>(device)];
  }
  /// Empty if the driver has no such attribute.
  [[nodiscard]] std::optional<int> attribute(CUdevice device, CUdevice_attribute attribute) const;

 private:
  std::vector<wire::DeviceRecord> all_;
  std::vector<std::uint32_t> visible_;
  std::vector<std::vector<int>> attributes_;  ///< per visible device, by id
  std::vector<std::vector<bool>> has_attribute_;
};

}  // namespace sluice::shim
