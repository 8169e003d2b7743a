#include "tools/sluice/smi.h"

#include "common/format.h"
#include "common/gpu_uuid.h"
#include "tools/sluice/exit_codes.h"
#include "tools/sluice/smi/fields.h"
#include "tools/sluice/smi/screen.h"
#include "tools/sluice/smi/slice_link.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

namespace sluice::tool {
namespace {

int refuse(int code, const std::string& message) {
  std::fprintf(stderr, "sluice smi: %s\n", message.c_str());
  return code;
}

int code_of(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument ? kExitUsage : kExitServer;
}

std::optional<std::string> contradiction(const SmiOptions& options) {
  const bool is_query = !options.query_gpu.empty() || !options.query_apps.empty();
  if (static_cast<int>(options.lists) + static_cast<int>(!options.query_gpu.empty()) +
          static_cast<int>(!options.query_apps.empty()) >
      1)
    return "only one of -L, --query-gpu and --query-compute-apps";
  if (is_query && options.format.empty()) return "a query needs --format=csv[,noheader][,nounits]";
  if (!is_query && !options.format.empty()) return "--format is for a query";
  return std::nullopt;
}

Result<std::vector<std::size_t>> chosen(const wire::SliceStatus& status, const std::string& wish) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < status.devices.size(); ++i) {
    const wire::SliceDevice& device = status.devices[i];
    if (wish.empty() || wish == std::to_string(i) || wish == gpu_uuid_text(device.uuid) ||
        wish == device.pci_bus_id || wish == long_bus_id(device.pci_bus_id))
      out.push_back(i);
  }
  if (out.empty() && !wish.empty())
    return fail(ErrorCode::kInvalidArgument,
                format("-i {}: there is no such device; -L lists all", wish));
  return out;
}

Result<std::string> render(const wire::SliceStatus& status, const SmiOptions& options,
                           bool is_first) {
  SLUICE_TRY(const auto devices, chosen(status, options.device));
  if (options.lists) return smi_list(status, devices);
  if (options.query_gpu.empty() && options.query_apps.empty()) return smi_table(status, devices);
  SLUICE_TRY(CsvFormat csv, parse_csv_format(options.format));
  csv.has_header = csv.has_header && is_first;
  return options.query_gpu.empty() ? query_apps(status, devices, options.query_apps, csv)
                                   : query_gpus(status, devices, options.query_gpu, csv);
}

}  // namespace

int smi(Settings settings, const SmiOptions& options) {
  if (options.lists_fields) {
    std::fputs(help_on_fields().c_str(), stdout);
    return 0;
  }
  if (const auto wrong = contradiction(options)) return refuse(kExitUsage, *wrong);
  const auto completed = complete(std::move(settings));
  if (!completed) return refuse(kExitUsage, completed.error().message);
  if (completed->server.empty())
    return refuse(kExitUsage,
                  "no server named: --server, SLUICE_SERVER, or server in "
                  "~/.config/sluice/config.toml (inside `sluice run` it is set)");
  const auto target = target_of(*completed);
  if (!target) return refuse(kExitUsage, target.error().message);
  auto link = SliceLink::open(*target);
  if (!link) return refuse(kExitServer, link.error().message);
  for (bool is_first = true;; is_first = false) {
    const auto status = link->look();
    if (!status) return refuse(kExitServer, status.error().message);
    const auto text = render(*status, options, is_first);
    if (!text) return refuse(code_of(text.error()), text.error().message);
    if (std::fputs(text->c_str(), stdout) < 0 || std::fflush(stdout) != 0)
      return 0;  // nobody reads
    if (options.interval_s <= 0) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
  }
}

}  // namespace sluice::tool
