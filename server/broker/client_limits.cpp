#include "server/broker/client_limits.h"

#include "common/format.h"
#include "common/percent.h"
#include "common/size.h"

#include <algorithm>
#include <charconv>

namespace sluice::server {
namespace {

Status lower_bytes(std::uint64_t* now, std::string_view text) {
  SLUICE_TRY(const std::uint64_t bytes, parse_size(text));
  if (bytes != 0) *now = *now == 0 ? bytes : std::min(*now, bytes);
  return {};
}

/// Others write percentages without their sign; 0 is no limit there.
Status lower_compute(double* now, std::string_view text) {
  const bool is_bare = !text.ends_with('%');
  SLUICE_TRY(const double fraction,
             parse_percent(is_bare ? std::string(text) + "%" : std::string(text)));
  if (fraction == 0 && !is_bare)
    return fail(ErrorCode::kInvalidArgument, "0% would never compute; write more than that");
  if (fraction > 0) *now = std::min(*now, fraction);
  return {};
}

Result<std::uint32_t> parse_device(std::string_view text) {
  std::uint32_t device = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), device);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || text.empty())
    return fail(ErrorCode::kInvalidArgument, format("\"{}\" is no number of a device", text));
  return device;
}

/// 0=1G,1=512M
Status lower_devices(ClientLimits* limits, std::string_view text) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      return fail(ErrorCode::kInvalidArgument,
                  format("\"{}\": write DEVICE=SIZE, e.g. 0=1G,1=512M", part));
    SLUICE_TRY(const std::uint32_t device, parse_device(part.substr(0, equals)));
    SLUICE_CHECK(lower_bytes(&limits->device_bytes[device], part.substr(equals + 1)));
  }
  return {};
}

Status lower(ClientLimits* limits, std::string_view name, std::string_view value) {
  constexpr std::string_view kOfDevice = "CUDA_DEVICE_MEMORY_LIMIT_";
  if (name == "SLUICE_MEM_LIMIT" || name == "CUDA_DEVICE_MEMORY_LIMIT")
    return lower_bytes(&limits->memory_bytes, value);
  if (name == "SLUICE_COMPUTE_LIMIT" || name == "CUDA_DEVICE_SM_LIMIT" ||
      name == "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
    return lower_compute(&limits->compute, value);
  if (name == "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT") return lower_devices(limits, value);
  if (!name.starts_with(kOfDevice)) return {};
  SLUICE_TRY(const std::uint32_t device, parse_device(name.substr(kOfDevice.size())));
  return lower_bytes(&limits->device_bytes[device], value);
}

}  // namespace

std::uint64_t ClientLimits::lowered(std::uint64_t bytes, std::uint32_t device) const {
  if (memory_bytes != 0) bytes = std::min(bytes, memory_bytes);
  const auto single = device_bytes.find(device);
  if (single != device_bytes.end() && single->second != 0) bytes = std::min(bytes, single->second);
  return bytes;
}

Result<ClientLimits> parse_client_limits(std::string_view lines) {
  ClientLimits out;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, equals), value = line.substr(equals + 1);
    if (const Status done = lower(&out, name, value); !done)
      return fail(done.error().with_context(format("{}={}", name, value)));
  }
  return out;
}

}  // namespace sluice::server
