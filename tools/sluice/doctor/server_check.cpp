#include "tools/sluice/doctor/server_check.h"

#include "common/format.h"
#include "common/release.h"
#include "common/size.h"
#include "protocol/opcodes.h"
#include "protocol/wire.h"
#include "tools/sluice/doctor/measure.h"
#include "tools/sluice/doctor/prediction.h"
#include "tools/sluice/doctor/transports.h"
#include "tools/sluice/exit_codes.h"
#include "tools/sluice/probe.h"
#include "transport/ucx/library.h"

#include <cmath>

namespace sluice::tool {
namespace {

/// Certificates are good from a moment on; logs of two hosts are compared by time.
constexpr double kClockTooFarUs = 2e6;
constexpr double kLongWayUs = 5'000;

std::string cuda_version(int version) {
  return format("{}.{}", version / 1000, version % 1000 / 10);
}

void tell_versions(const Reached& reached, const Measured* measured, Findings& findings) {
  const std::string server = reached.release.empty() ? "an older one" : reached.release;
  const bool has_session = measured != nullptr && measured->session.contains("driver_version");
  const int driver = has_session ? measured->session.value("driver_version", 0) : 0;
  const int cuda = has_session ? measured->session.value("cuda_version", 0) : 0;
  findings.set("versions", {{"protocol", wire::kProtocolVersion},
                            {"opcode_table_hash", format("{:016x}", wire::kOpcodeTableHash)},
                            {"sluice", kRelease},
                            {"server_sluice", reached.release},
                            {"driver", has_session ? nlohmann::json(driver) : nlohmann::json()},
                            {"cuda", has_session ? nlohmann::json(cuda) : nlohmann::json()}});
  const std::string text =
      format("protocol {}, table {:016x} on both sides; Sluice {} here, {} there{}",
             wire::kProtocolVersion, wire::kOpcodeTableHash, kRelease, server,
             has_session ? format("; driver for CUDA {}, client libraries for CUDA {}",
                                  cuda_version(driver), cuda_version(cuda))
                         : "");
  if (reached.release == kRelease) return findings.good("versions", text);
  findings.warn("versions", text,
                "the two work together; install the same release on both sides to have the fixes "
                "of the newer one");
}

void tell_clock(const Reached& reached, Findings& findings) {
  if (!reached.clock) {
    findings.set("clock", nullptr);
    return findings.good("clock", "not compared: the server is too old to tell its time");
  }
  const auto [ahead_us, uncertainty_us] = *reached.clock;
  findings.set("clock", {{"server_ahead_us", ahead_us}, {"uncertainty_us", uncertainty_us}});
  const std::string text =
      format("the server's wall clock is {:.3f} s {} this host's (+- {:.3f} s)",
             std::abs(ahead_us) / 1e6, ahead_us < 0 ? "behind" : "ahead of", uncertainty_us / 1e6);
  if (std::abs(ahead_us) - uncertainty_us < kClockTooFarUs) return findings.good("clock", text);
  findings.warn(
      "clock", text,
      "certificates may be refused as not yet or no longer valid, and the logs of the two "
      "hosts do not fit together: run chrony or systemd-timesyncd on both");
}

void tell_transports(const Settings& settings, const Reached& reached, const Measured& measured,
                     const std::string& used, Findings& findings) {
  nlohmann::json list = nlohmann::json::array();
  std::string text = used, others;
  for (const Verdict& verdict : judge_transports(settings, reached, measured, used)) {
    list.push_back({{"name", verdict.transport}, {"used", verdict.is_used}, {"why", verdict.why}});
    if (verdict.is_used)
      text += " (" + verdict.why + ")";
    else
      others += format("\nnot {}: {}", verdict.transport, verdict.why);
  }
  findings.set("transports", std::move(list));
  findings.set("transport", used);
  const bool is_free = settings.transport.empty() && settings.emulate.empty();
  if (is_free && reached.reach == transport::Reach::kLoopback)
    return findings.warn("transport", text + others,
                         "if the server runs on this host, use its unix:PATH: shared memory is "
                         "several times as fast as TCP");
  if (used == "unix" && is_free)
    return findings.warn(
        "transport", text + others,
        "shared memory would be several times as fast: the line above says what is "
        "in its way");
  findings.good("transport", text + others);
}

void tell_trips(const char* what, const std::optional<Trips>& trips, Findings& findings) {
  if (!trips) return;
  const std::string text =
      format("min {:.1f} us, median {:.1f} us, 99th percentile {:.1f} us (of {})", trips->min_us,
             trips->p50_us, trips->p99_us, trips->count);
  if (std::string(what) == "round trip" && trips->min_us > kLongWayUs)
    return findings.warn(what, text,
                         "the server is far away: each call that waits takes that long "
                         "(`sluice stats` shows which calls of a program wait); a nearer server is "
                         "the remedy");
  findings.good(what, text);
}

void tell_copies(const Measured& measured, bool is_to_device, Findings& findings) {
  std::string text;
  for (const CopyRate& rate : measured.copies)
    if (rate.is_to_device == is_to_device)
      text += format("{}{} pieces: {:.3g} GB/s", text.empty() ? "" : ", ", size_text(rate.bytes),
                     rate.gb_per_s);
  if (!text.empty()) findings.good(is_to_device ? "to the device" : "to the host", text);
}

void tell_measured(const Measured& measured, Findings& findings) {
  findings.set("round_trip_us", to_json(measured.round_trip));
  findings.set("synchronize_us", to_json(measured.synchronize));
  findings.set("launches", to_json(measured.launches));
  nlohmann::json copies = nlohmann::json::array();
  for (const CopyRate& rate : measured.copies) copies.push_back(to_json(rate));
  findings.set("copies", std::move(copies));
  findings.set("path", measured.path ? to_json(*measured.path) : nlohmann::json());
  findings.set("not_measured", measured.not_measured);
  const Prediction prediction = predict(measured);
  findings.set("prediction", to_json(prediction, measured));

  tell_trips("round trip", measured.round_trip, findings);
  tell_trips("synchronise", measured.synchronize, findings);
  if (measured.launches)
    findings.good("launch", format("{:.2f} us each until the call returned, {:.2f} us until all "
                                   "were done ({} {})",
                                   measured.launches->posted_us, measured.launches->done_us,
                                   measured.launches->count, measured.launches->what));
  tell_copies(measured, true, findings);
  tell_copies(measured, false, findings);
  if (measured.path) judge_path(*measured.path, findings);
  for (const std::string& what : measured.not_measured)
    findings.warn(
        "not measured", what,
        "everything else that is shown holds; if a call failed that should have worked, ask "
        "the server's administrator (sluicectl tenant show, ps)");
  if (const std::string text = text_of(prediction, measured); !text.empty())
    findings.good("expect", text);
}

}  // namespace

std::string check_server(const Settings& settings, const ServerCheck& check, Findings& findings) {
  const auto target = target_of(settings);
  if (!target) {
    findings.bad("server", kExitUsage, target.error().message);
    return "";
  }
  if (const std::string wrong = wrong_transport(settings); !wrong.empty()) {
    findings.bad("transport", kExitUsage, wrong);
    return "";
  }
  const auto reached = probe(*target);
  if (!reached) {
    findings.bad("server", kExitServer, reached.error().message);
    return "";
  }
  const std::string encrypted = why_encrypted(settings, *reached);
  findings.set("server", {{"named", settings.server},
                          {"address", reached->address},
                          {"node", reached->node},
                          {"tenant", target->tenant},
                          {"encrypted", reached->is_encrypted},
                          {"why_encrypted", encrypted},
                          {"connect_us", reached->connect_us}});
  findings.good("server",
                format("{} ({}) lets tenant \"{}\" in; reached at {} in {:.0f} us", settings.server,
                       reached->node, target->tenant, reached->address, reached->connect_us));
  findings.good("encryption", encrypted);
  if (!check.measures) {
    tell_versions(*reached, nullptr, findings);
    tell_clock(*reached, findings);
    check_transport(settings, findings);
    return "";
  }
  if (!settings.emulate.empty())
    findings.good("emulation", settings.emulate +
                                   ": what is measured is that link, not the way "
                                   "to the server");
  Progress progress;
  const Measured measured = measure(settings, check.library, progress);
  tell_versions(*reached, &measured, findings);
  tell_clock(*reached, findings);
  if (!measured.no_session.empty()) {
    findings.bad("session", kExitServer, measured.no_session);
    return "";
  }
  findings.set("session", {{"id", measured.session.value("session", 0ull)},
                           {"devices", measured.session.value("devices", 0)},
                           {"resumable", measured.session.value("resumable", false)}});
  std::string used = measured.session.value("transport", "");
  tell_transports(settings, *reached, measured, used, findings);
  tell_measured(measured, findings);
  return used;
}

void check_transport(const Settings& settings, Findings& findings) {
  const bool is_unix = settings.is_local || settings.server.starts_with("unix:");
  const std::string& wish = settings.transport;
  if (wish.empty() && is_unix)
    return findings.good("transport", settings.emulate.empty() ? "shm (the server is on this host)"
                                                               : "unix (the link is emulated)");
  if (!wish.empty() && wish != "ucx") return findings.good("transport", wish + " (as chosen)");
  const auto ucx = transport::ucx::describe_host();
  if (ucx)
    return findings.good("transport", wish.empty()
                                          ? "ucx if the server has RDMA, too, else tcp: " + *ucx
                                          : "ucx (as chosen): " + *ucx);
  if (wish.empty()) return findings.good("transport", "tcp; not ucx: " + ucx.error().message);
  findings.bad("transport", kExitUsage, "ucx: " + ucx.error().message);
}

}  // namespace sluice::tool
