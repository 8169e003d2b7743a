#include "tools/sluice/smi/screen.h"

#include "common/format.h"
#include "common/gpu_uuid.h"
#include "common/release.h"
#include "protocol/slice_client.h"
#include "tools/sluice/smi/fields.h"

namespace sluice::tool {
namespace {

constexpr int kLeft = 31, kMiddle = 22, kRight = 22;  ///< inside the frame
constexpr int kWhole = kLeft + kMiddle + kRight + 2;
constexpr std::uint64_t kMiB = 1024 * 1024;

std::string fit(const std::string& text, int width) {
  const auto most = static_cast<std::size_t>(width);
  return text.size() <= most ? format("{:<{}}", text, width) : text.substr(0, most - 3) + "...";
}
/// Of a path the end says most.
std::string fit_end(const std::string& text, int width) {
  const auto most = static_cast<std::size_t>(width);
  return text.size() <= most ? format("{:<{}}", text, width)
                             : "..." + text.substr(text.size() - most + 3);
}
std::string fit_right(const std::string& text, int width) {
  return format("{:>{}}", text, width);
}

std::string rule(char left, char line, char between) {
  return left + std::string(kLeft, line) + between + std::string(kMiddle, line) + between +
         std::string(kRight, line) + left + "\n";
}
std::string whole_rule(char line) {
  const char end = line == '-' ? '+' : '|';
  return end + std::string(kWhole, line) + end + "\n";
}
std::string row(const std::string& a, const std::string& b, const std::string& c) {
  return "|" + fit(a, kLeft) + "|" + fit_right(b, kMiddle) + "|" + fit_right(c, kRight) + "|\n";
}
std::string whole_row(const std::string& text) {
  return "|" + fit(text, kWhole) + "|\n";
}

std::string mib(std::uint64_t bytes) {
  return format("{}MiB", bytes / kMiB);
}

std::string share_text(const wire::SliceStatus& status) {
  return format("{:.4g}% - {:.4g}%, x{:.4g} ", status.guarantee_ppm / 1e4, status.limit_ppm / 1e4,
                status.weight_milli / 1e3);
}

std::string head(const wire::SliceStatus& status) {
  const int cuda = status.driver_version;
  const std::string left =
      format(" SLUICE-SMI {}   Server: {}   Tenant: {}", kRelease, status.node, status.tenant);
  const std::string right = format("CUDA Version: {}.{} ", cuda / 1000, cuda % 1000 / 10);
  const int rest = kWhole - static_cast<int>(right.size());
  return whole_rule('-') + whole_row(fit(left, rest) + right) + rule('+', '-', '+') +
         row(" GPU  Name", "Bus-Id ", "Share of time ") +
         row(" Compute", "Memory-Usage ", "GPU-Util  Class ") + rule('|', '=', '+');
}

std::string gpu_rows(const wire::SliceStatus& status, std::size_t index) {
  const wire::SliceDevice& device = status.devices[index];
  const auto major = wire::attribute_of(device, 75).value_or(0);  // of the compute capability
  const auto minor = wire::attribute_of(device, 76).value_or(0);
  return row(format("{:>4}  {}", index, device.name), long_bus_id(device.pci_bus_id) + " ",
             share_text(status)) +
         row(format("{:>4}.{}", major, minor),
             mib(device.used_bytes) + " / " + mib(device.total_bytes) + " ",
             format("{:>3}%  {} ",
                    wire::busy_percent(status, device.recent_busy_us, status.recent_us),
                    status.share_class)) +
         rule('+', '-', '+');
}

std::string process_rows(const wire::SliceStatus& status, std::size_t index) {
  std::string out;
  for (const wire::SliceSession& session : status.sessions)
    for (const wire::SliceUse& use : session.uses) {
      if (use.device != index) continue;
      out += whole_row(format("{:>4} {:>10}   {} {} {:>10} ", index, session.pid,
                              fit(session.host, 16), fit_end(session.program, 29),
                              mib(use.memory_bytes)));
    }
  return out;
}

}  // namespace

std::string smi_table(const wire::SliceStatus& status, const std::vector<std::size_t>& devices) {
  std::string out = head(status), processes;
  for (const std::size_t index : devices) {
    out += gpu_rows(status, index);
    processes += process_rows(status, index);
  }
  if (devices.empty()) out += whole_row(" No devices were found") + whole_rule('-');
  out += "\n" + whole_rule('-') + whole_row(" Processes of this tenant, on all hosts:") +
         whole_row(format(" {:>3} {:>10}   {} {} {:>10} ", "GPU", "PID", fit("Host", 16),
                          fit("Program", 29), "GPU Memory")) +
         whole_rule('=');
  out += processes.empty() ? whole_row(" None") : processes;
  if (status.sessions_left_out > 0)
    out += whole_row(format(" and {} sessions more", status.sessions_left_out));
  return out + whole_rule('-');
}

std::string smi_list(const wire::SliceStatus& status, const std::vector<std::size_t>& devices) {
  std::string out;
  for (const std::size_t index : devices)
    out += format("GPU {}: {} (UUID: {})\n", index, status.devices[index].name,
                  gpu_uuid_text(status.devices[index].uuid));
  return out;
}

}  // namespace sluice::tool
