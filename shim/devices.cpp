#include "shim/devices.h"

#include "common/gpu_uuid.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace sluice::shim {
namespace {

constexpr int kAttributeMax = 4096;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::optional<std::uint32_t> device_named(std::string_view entry,
                                          const std::vector<wire::DeviceRecord>& devices) {
  if (entry.starts_with("GPU-") && entry.size() > 4) {
    std::optional<std::uint32_t> found;
    std::string wanted(entry);
    std::transform(wanted.begin() + 4, wanted.end(), wanted.begin() + 4, [](char c) {
      return c >= 'A' && c <= 'F' ? static_cast<char>(c + ('a' - 'A')) : c;
    });
    for (std::uint32_t i = 0; i < devices.size(); ++i) {
      if (!gpu_uuid_text(devices[i].uuid).starts_with(wanted)) continue;
      if (found) return std::nullopt;
      found = i;
    }
    return found;
  }
  std::uint32_t ordinal = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), ordinal);
  if (error != std::errc{} || end != entry.data() + entry.size() || ordinal >= devices.size())
    return std::nullopt;
  return ordinal;
}

/// What the driver on the server could do but we do not carry; claiming it would make programs rely
/// on it.
bool is_withheld(int attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
    case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
    case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::vector<std::uint32_t> visible_devices(std::optional<std::string_view> list,
                                           const std::vector<wire::DeviceRecord>& devices) {
  std::vector<std::uint32_t> visible;
  if (!list) {
    for (std::uint32_t i = 0; i < devices.size(); ++i) visible.push_back(i);
    return visible;
  }
  std::string_view rest = *list;
  for (;;) {
    const std::size_t comma = rest.find(',');
    const auto device = device_named(trimmed(rest.substr(0, comma)), devices);
    if (!device || std::find(visible.begin(), visible.end(), *device) != visible.end())
      return visible;
    visible.push_back(*device);
    if (comma == std::string_view::npos) return visible;
    rest.remove_prefix(comma + 1);
  }
}

Devices::Devices(std::vector<wire::DeviceRecord> all, std::optional<std::string_view> visible_list)
    : all_(std::move(all)), visible_(visible_devices(visible_list, all_)) {
  for (const std::uint32_t ordinal : visible_) {
    std::vector<int> values;
    std::vector<bool> known;
    for (const auto& [id, value] : all_[ordinal].attributes) {
      if (id < 0 || id > kAttributeMax) continue;
      const auto index = static_cast<std::size_t>(id);
      if (values.size() <= index) {
        values.resize(index + 1);
        known.resize(index + 1);
      }
      values[index] = is_withheld(id) ? 0 : value;
      known[index] = true;
    }
    attributes_.push_back(std::move(values));
    has_attribute_.push_back(std::move(known));
  }
}

std::optional<int> Devices::attribute(CUdevice device, CUdevice_attribute attribute) const {
  const auto& values = attributes_[static_cast<std::size_t>(device)];
  const auto index = static_cast<std::size_t>(attribute);
  if (index >= values.size() || !has_attribute_[static_cast<std::size_t>(device)][index])
    return std::nullopt;
  return values[index];
}

}  // namespace sluice::shim
