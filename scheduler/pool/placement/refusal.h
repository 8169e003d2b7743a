// Why a node or a device is not taken: a cause that can be counted, with the figures for a
// sentence.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::pool {

/// In the order in which the filters are asked: a later cause is nearer to a yes.
enum class Cause : std::uint8_t {
  kCordoned,
  kDraining,
  kTaint,
  kNodeLabel,
  kAffinity,
  kAntiAffinity,
  kUnhealthy,
  kKind,
  kModel,
  kCapability,
  kInstances,  ///< an instance is wanted and there is none, or the other way round
  kReserved,   ///< kept for a job that has waited long
  kIsolation,
  kClass,
  kCompute,
  kMemory,
  kDevices,  ///< too few devices on the node that would each do
};
inline constexpr std::size_t kCauseCount = 17;
/// "cordoned", "memory".
std::string_view cause_name(Cause cause);

struct Refusal {
  Cause cause{};
  std::int64_t wanted = 0, found = 0;  ///< permille, bytes or devices
  std::string what{};                  ///< a taint, a label, a model
};
/// Nothing: no objection.
using Objection = std::optional<Refusal>;

/// "needs 10 GiB, largest free 6 GiB"; without the node.
std::string refusal_text(const Refusal& refusal);
/// Whether `a` says more than `b` about what is missing: it is nearer to a yes.
bool is_nearer(const Refusal& a, const Refusal& b);

}  // namespace sluice::pool
