#include "tools/sluice/doctor/prediction.h"

#include "common/format.h"
#include "common/size.h"

namespace sluice::tool {
namespace {

constexpr unsigned kStepLaunches = 500;  ///< of the example: a small training step

/// The largest that was measured: what a GB is made of.
const CopyRate* largest(const Measured& measured, bool is_to_device) {
  const CopyRate* out = nullptr;
  for (const CopyRate& rate : measured.copies)
    if (rate.is_to_device == is_to_device && (out == nullptr || rate.bytes > out->bytes))
      out = &rate;
  return out;
}

std::optional<double> ms_per_gb(const CopyRate* rate) {
  if (rate == nullptr || rate->gb_per_s <= 0) return std::nullopt;
  return 1e3 / rate->gb_per_s;
}

nlohmann::json or_null(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

std::string derived_from_launches(const Measured& measured) {
  return measured.launches
             ? format("{} {} in a row", measured.launches->count, measured.launches->what)
             : "";
}

std::string derived_from_waits(const Measured& measured) {
  return measured.synchronize ? format("median of {} cuCtxSynchronize on an idle device",
                                       measured.synchronize->count)
                              : "";
}

std::string derived_from_copies(const Measured& measured) {
  const CopyRate* rate = largest(measured, true);
  if (rate == nullptr) rate = largest(measured, false);
  return rate != nullptr
             ? format("copies of {} from and to ordinary memory", size_text(rate->bytes))
             : "";
}

}  // namespace

Prediction predict(const Measured& measured) {
  Prediction out;
  if (measured.launches) {
    out.launch_us = measured.launches->posted_us;
    out.launch_sustained_us = measured.launches->done_us;
  }
  if (measured.synchronize) out.synchronize_us = measured.synchronize->p50_us;
  out.to_device_ms_per_gb = ms_per_gb(largest(measured, true));
  out.to_host_ms_per_gb = ms_per_gb(largest(measured, false));
  return out;
}

nlohmann::json to_json(const Prediction& prediction, const Measured& measured) {
  return {{"launch_us", or_null(prediction.launch_us)},
          {"launch_sustained_us", or_null(prediction.launch_sustained_us)},
          {"synchronize_us", or_null(prediction.synchronize_us)},
          {"to_device_ms_per_gb", or_null(prediction.to_device_ms_per_gb)},
          {"to_host_ms_per_gb", or_null(prediction.to_host_ms_per_gb)},
          {"derived_from",
           {{"launch", derived_from_launches(measured)},
            {"synchronize", derived_from_waits(measured)},
            {"copy", derived_from_copies(measured)}}}};
}

std::string text_of(const Prediction& p, const Measured& measured) {
  std::string out;
  const auto add = [&](const std::string& line) { out += (out.empty() ? "" : "\n") + line; };
  if (p.launch_us && p.launch_sustained_us)
    add(
        format("a launch costs the program {:.2f} us, and at least {:.2f} us pass between two of "
               "many ({})",
               *p.launch_us, *p.launch_sustained_us, derived_from_launches(measured)));
  if (p.synchronize_us)
    add(format("a synchronisation costs {:.1f} us besides the work that it waits for ({})",
               *p.synchronize_us, derived_from_waits(measured)));
  if (p.to_device_ms_per_gb)
    add(format("a GB to the device takes {:.4g} ms ({})", *p.to_device_ms_per_gb,
               derived_from_copies(measured)));
  if (p.to_host_ms_per_gb)
    add(format("a GB to the host takes {:.4g} ms (the same)", *p.to_host_ms_per_gb));
  if (p.launch_us && p.synchronize_us)
    add(format("so {} launches and one synchronisation cost the program {:.2f} ms", kStepLaunches,
               (kStepLaunches * *p.launch_us + *p.synchronize_us) / 1e3));
  return out;
}

}  // namespace sluice::tool
