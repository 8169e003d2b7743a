#include "tools/sluice/smi/fields.h"

#include "common/driver_branch.h"
#include "common/format.h"
#include "common/gpu_uuid.h"
#include "common/nearest.h"
#include "protocol/slice_client.h"

#include <cuda.h>

#include <algorithm>
#include <ctime>
#include <functional>

namespace sluice::tool {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

/// A row of the answer: a device, and for --query-compute-apps a session that uses it.
struct Place {
  const wire::SliceStatus& status;
  std::size_t index;
  const wire::SliceSession* session = nullptr;
  const wire::SliceUse* use = nullptr;

  [[nodiscard]] const wire::SliceDevice& device() const { return status.devices[index]; }
};

struct Field {
  const char* name;
  const char* unit;  ///< empty: none
  const char* meaning;
  std::function<std::string(const Place&)> value;
};

std::string now_text() {
  char text[64] = {};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::strftime(text, sizeof text, "%Y/%m/%d %H:%M:%S.000", &parts);
  return text;
}

std::string attribute(const Place& place, CUdevice_attribute id, int divisor = 1) {
  const auto value = wire::attribute_of(place.device(), id);
  return value && *value >= divisor ? std::to_string(*value / divisor) : kNoValue;
}

std::string mib(std::uint64_t bytes) {
  return std::to_string(bytes / kMiB);
}

std::string compute_capability(const Place& place) {
  const auto major =
      wire::attribute_of(place.device(), CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  const auto minor =
      wire::attribute_of(place.device(), CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  return major && minor ? format("{}.{}", *major, *minor) : kNoValue;
}

std::string compute_mode(const Place& place) {
  switch (wire::attribute_of(place.device(), CU_DEVICE_ATTRIBUTE_COMPUTE_MODE).value_or(-1)) {
    case CU_COMPUTEMODE_DEFAULT:
      return "Default";
    case CU_COMPUTEMODE_PROHIBITED:
      return "Prohibited";
    case CU_COMPUTEMODE_EXCLUSIVE_PROCESS:
      return "Exclusive_Process";
    default:
      return kNoValue;
  }
}

std::string percent_of(std::uint32_t millionths) {
  return format("{:.4g}", millionths / 1e4);
}

const std::vector<Field>& gpu_fields() {
  static const std::vector<Field> fields = {
      {"timestamp", "", "when the question was asked", [](const Place&) { return now_text(); }},
      {"index", "", "number of the device", [](const Place& p) { return std::to_string(p.index); }},
      {"count", "", "how many devices there are",
       [](const Place& p) { return std::to_string(p.status.devices.size()); }},
      {"name", "", "as the driver calls it", [](const Place& p) { return p.device().name; }},
      {"uuid", "", "identifies the device",
       [](const Place& p) { return gpu_uuid_text(p.device().uuid); }},
      {"pci.bus_id", "", "PCI address on the server",
       [](const Place& p) { return long_bus_id(p.device().pci_bus_id); }},
      {"driver_version", "", "of the server's driver, else the branch that offers the same CUDA",
       [](const Place& p) {
         return !p.status.driver_release.empty() ? p.status.driver_release
                                                 : driver_version_text(p.status.driver_version);
       }},
      {"compute_cap", "", "compute capability", compute_capability},
      {"compute_mode", "", "who may use the device", compute_mode},
      {"memory.total", "MiB", "the slice",
       [](const Place& p) { return mib(p.device().total_bytes); }},
      {"memory.used", "MiB", "by all sessions of the tenant",
       [](const Place& p) { return mib(p.device().used_bytes); }},
      {"memory.free", "MiB", "what is left of the slice",
       [](const Place& p) { return mib(wire::free_bytes(p.device())); }},
      {"utilization.gpu", "%", "of the tenant's share, over the last second or two",
       [](const Place& p) {
         return std::to_string(
             wire::busy_percent(p.status, p.device().recent_busy_us, p.status.recent_us));
       }},
      {"clocks.max.sm", "MHz", "highest clock of the processors",
       [](const Place& p) { return attribute(p, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000); }},
      {"clocks.max.memory", "MHz", "highest clock of the memory",
       [](const Place& p) { return attribute(p, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000); }},
      {"share.guarantee", "%", "of the device's time, at least (ours)",
       [](const Place& p) { return percent_of(p.status.guarantee_ppm); }},
      {"share.limit", "%", "of the device's time, at most (ours)",
       [](const Place& p) { return percent_of(p.status.limit_ppm); }},
      {"share.weight", "", "part of what is left, against others' weights (ours)",
       [](const Place& p) { return format("{:.4g}", p.status.weight_milli / 1e3); }},
      {"share.class", "", "who goes first (ours)",
       [](const Place& p) { return p.status.share_class; }},
      {"gpu_time", "s", "computed since the server started (ours)",
       [](const Place& p) {
         return format("{:.3f}", static_cast<double>(p.device().busy_us) / 1e6);
       }},
  };
  return fields;
}

/// nvidia-smi knows these, and a slice has no answer.
constexpr const char* kUnknown[] = {"temperature.gpu",
                                    "temperature.memory",
                                    "power.draw",
                                    "power.limit",
                                    "enforced.power.limit",
                                    "fan.speed",
                                    "pstate",
                                    "utilization.memory",
                                    "clocks.sm",
                                    "clocks.gr",
                                    "clocks.mem",
                                    "clocks.current.sm",
                                    "clocks.current.memory",
                                    "serial",
                                    "vbios_version",
                                    "persistence_mode",
                                    "mig.mode.current",
                                    "ecc.errors.uncorrected.volatile.total",
                                    "pcie.link.gen.current",
                                    "pcie.link.width.current",
                                    "encoder.stats.sessionCount",
                                    "memory.reserved"};

const std::vector<Field>& app_fields() {
  static const std::vector<Field> fields = {
      {"timestamp", "", "when the question was asked", [](const Place&) { return now_text(); }},
      {"gpu_name", "", "as the driver calls it", [](const Place& p) { return p.device().name; }},
      {"gpu_bus_id", "", "PCI address on the server",
       [](const Place& p) { return long_bus_id(p.device().pci_bus_id); }},
      {"gpu_uuid", "", "identifies the device",
       [](const Place& p) { return gpu_uuid_text(p.device().uuid); }},
      {"pid", "", "number of the process on its host",
       [](const Place& p) { return std::to_string(p.session->pid); }},
      {"process_name", "", "its program", [](const Place& p) { return p.session->program; }},
      {"used_gpu_memory", "MiB", "what it holds of the slice",
       [](const Place& p) { return mib(p.use->memory_bytes); }},
      {"host", "", "where it runs (ours)", [](const Place& p) { return p.session->host; }},
      {"session", "", "its number on the server (ours)",
       [](const Place& p) { return std::to_string(p.session->session_id); }},
      {"gpu_time", "s", "computed so far (ours)",
       [](const Place& p) { return format("{:.3f}", static_cast<double>(p.use->busy_us) / 1e6); }},
  };
  return fields;
}

std::string canonical(const std::string& name) {
  constexpr std::pair<const char*, const char*> kAlso[] = {{"gpu_uuid", "uuid"},
                                                           {"gpu_name", "name"},
                                                           {"gpu_bus_id", "pci.bus_id"},
                                                           {"clocks.max.graphics", "clocks.max.sm"},
                                                           {"clocks.max.gr", "clocks.max.sm"},
                                                           {"clocks.max.mem", "clocks.max.memory"}};
  for (const auto& [also, own] : kAlso)
    if (name == also) return own;
  return name;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> out(1);
  for (const char c : list) {
    if (c == ',')
      out.emplace_back();
    else if (c != ' ')
      out.back() += c;
  }
  return out;
}

Result<std::vector<Field>> fields_of(const std::string& list, bool is_of_gpus) {
  const std::vector<Field>& known = is_of_gpus ? gpu_fields() : app_fields();
  std::vector<Field> out;
  for (const std::string& given : split(list)) {
    std::string name = is_of_gpus ? canonical(given) : given;
    if (!is_of_gpus && name == "used_memory") name = "used_gpu_memory";
    if (!is_of_gpus && name == "name") name = "process_name";
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const Field& field) { return name == field.name; });
    if (found != known.end()) {
      out.push_back(*found);
      continue;
    }
    const auto unanswered =
        std::find(std::begin(kUnknown), std::end(kUnknown), std::string_view(name));
    if (is_of_gpus && unanswered != std::end(kUnknown)) {
      out.push_back({*unanswered, "", "", [](const Place&) { return std::string(kNoValue); }});
      continue;
    }
    std::vector<std::string_view> names;
    for (const Field& field : known) names.emplace_back(field.name);
    const std::string closest(nearest(name, names));
    return fail(ErrorCode::kInvalidArgument,
                format("\"{}\" is no field{} (--help-query-gpu lists all)", given,
                       closest.empty() ? "" : format("; did you mean \"{}\"?", closest)));
  }
  return out;
}

std::string line_of(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() ? "" : ", ") + cell;
  return line + "\n";
}

std::string header_of(const std::vector<Field>& fields, bool has_units) {
  std::vector<std::string> cells;
  for (const Field& field : fields)
    cells.push_back(has_units && *field.unit != '\0' ? format("{} [{}]", field.name, field.unit)
                                                     : field.name);
  return line_of(cells);
}

std::string values_of(const std::vector<Field>& fields, const Place& place, bool has_units) {
  std::vector<std::string> cells;
  for (const Field& field : fields) {
    std::string value = field.value(place);
    if (has_units && *field.unit != '\0' && value != kNoValue) value += format(" {}", field.unit);
    cells.push_back(std::move(value));
  }
  return line_of(cells);
}

}  // namespace

Result<CsvFormat> parse_csv_format(const std::string& text) {
  CsvFormat out;
  const std::vector<std::string> words = split(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "csv" && i == 0) continue;
    if (words[i] == "noheader" && i > 0)
      out.has_header = false;
    else if (words[i] == "nounits" && i > 0)
      out.has_units = false;
    else
      return fail(ErrorCode::kInvalidArgument,
                  format("--format={}: expected csv, with noheader and nounits after it", text));
  }
  return out;
}

Result<std::string> query_gpus(const wire::SliceStatus& status,
                               const std::vector<std::size_t>& devices, const std::string& list,
                               const CsvFormat& csv) {
  SLUICE_TRY(const std::vector<Field> fields, fields_of(list, true));
  std::string out = csv.has_header ? header_of(fields, csv.has_units) : "";
  for (const std::size_t index : devices)
    out += values_of(fields, Place{status, index}, csv.has_units);
  return out;
}

Result<std::string> query_apps(const wire::SliceStatus& status,
                               const std::vector<std::size_t>& devices, const std::string& list,
                               const CsvFormat& csv) {
  SLUICE_TRY(const std::vector<Field> fields, fields_of(list, false));
  std::string out = csv.has_header ? header_of(fields, csv.has_units) : "";
  for (const std::size_t index : devices)
    for (const wire::SliceSession& session : status.sessions)
      for (const wire::SliceUse& use : session.uses)
        if (use.device == index)
          out += values_of(fields, Place{status, index, &session, &use}, csv.has_units);
  return out;
}

std::string help_on_fields() {
  const auto list = [](const char* option, const std::vector<Field>& fields) {
    std::string out = format("{}:\n", option);
    for (const Field& field : fields)
      out += format("  {:<20} {}{}\n", field.name, field.meaning,
                    *field.unit != '\0' ? format(", in {}", field.unit) : "");
    return out;
  };
  std::string out = list("--query-gpu", gpu_fields()) + "These a slice has no answer to, it is " +
                    kNoValue + ":\n";
  for (const char* name : kUnknown) out += format("  {}\n", name);
  return out + list("--query-compute-apps", app_fields());
}

std::string long_bus_id(const std::string& bus_id) {
  std::string out = bus_id.find(':') == 4 ? "0000" + bus_id : bus_id;
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'a' && c <= 'f' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return out;
}

}  // namespace sluice::tool
