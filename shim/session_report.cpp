#include "shim/session_report.h"

#include "common/format.h"
#include "common/release.h"
#include "protocol/opcodes.h"
#include "protocol/session_report.h"
#include "protocol/wire.h"
#include "shim/json_text.h"

#include <cuda.h>

#include <mutex>
#include <utility>
#include <vector>

namespace sluice::shim {
namespace {

struct Notes {
  std::mutex mutex;
  std::vector<std::pair<std::string, std::string>> not_used;
  std::string no_session;
};

Notes& notes() {
  static Notes* const made = new Notes;  // leaked: calls may come while the process ends
  return *made;
}

std::string of_session(Session& session) {
  const wire::Welcome& welcome = session.welcome();
  return format(
      ",\"server\":{},\"node\":{},\"server_release\":{},\"release\":{},\"transport\":{},"
      "\"session\":{},\"worker_pid\":{},\"devices\":{},\"protocol_version\":{},"
      "\"opcode_table_hash\":\"{:016x}\",\"feature_bits\":{},\"driver_version\":{},"
      "\"cuda_version\":{},\"socket\":{},\"round_trips\":{},"
      "\"resumable\":{}",
      quoted(session.server()), quoted(welcome.node), quoted(welcome.release), quoted(kRelease),
      quoted(session.pipeline().transport_name()), welcome.session_id, welcome.worker_pid,
      session.devices().count(), welcome.protocol_version, wire::kOpcodeTableHash,
      welcome.feature_bits, welcome.driver_version, CUDA_VERSION, session.pipeline().socket(),
      session.pipeline().traffic().round_trips.load(),
      session.pipeline().is_resumable() ? "true" : "false");
}

}  // namespace

void note_not_used(const char* transport, const std::string& why) {
  const std::lock_guard lock(notes().mutex);
  notes().not_used.emplace_back(transport, why);
}

void note_no_session(const std::string& why) {
  const std::lock_guard lock(notes().mutex);
  notes().no_session = why;
}

std::string session_report(Session* session) {
  const std::lock_guard lock(notes().mutex);
  std::string not_used;
  for (const auto& [transport, why] : notes().not_used)
    not_used += format("{}{{\"transport\":{},\"why\":{}}}", not_used.empty() ? "" : ",",
                       quoted(transport), quoted(why));
  const bool has_error = session == nullptr && !notes().no_session.empty();
  return format("{{\"error\":{},\"not_used\":[{}]{}}}",
                has_error ? quoted(notes().no_session) : "null", not_used,
                session != nullptr ? of_session(*session) : "");
}

}  // namespace sluice::shim

extern "C" __attribute__((visibility("default"))) std::uint64_t sluice_spare_bytes(
    std::uint32_t device, std::uint64_t* number) {
  using namespace sluice::shim;
  *number = 0;
  if (process().phase.load() != Phase::kReady) return 0;
  *number = session().welcome().session_id;
  return session().memory().spare_bytes_of(device);
}

extern "C" __attribute__((visibility("default"))) const char* sluice_session_report() {
  using namespace sluice::shim;
  static std::string* const report = new std::string;
  const bool is_ready = process().phase.load() == Phase::kReady;
  *report = session_report(is_ready ? &session() : nullptr);
  return report->c_str();
}
