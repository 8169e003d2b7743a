// sluice-worker: one client session. Started by sluiced with the link as descriptor 3; loads the
// driver, reports its devices, serves the data connection it is given, and is gone when either side
// is.
#include "common/log.h"
#include "server/worker/await_data.h"
#include "server/worker/broker_ledger.h"
#include "server/worker/driver_start.h"
#include "server/worker/process_bytes.h"
#include "server/worker/resumption.h"
#include "server/worker/turns.h"
#include "server/worker/worker.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>

namespace sluice::server {
namespace {

struct TurnParts {
  Fd grants, uses, bell;
};

Result<Turns*> take_turns(TurnParts parts) {
  SLUICE_TRY(auto grants, turns::map_grants(std::move(parts.grants)));
  SLUICE_TRY(auto uses, turns::map_uses(std::move(parts.uses)));
  // Never freed: kernels may run until the process ends.
  return new Turns(std::move(grants), std::move(uses), std::move(parts.bell));
}

Status serve(const link::Start& start, TurnParts parts) {
  static DriverTable driver;
  auto ready = start_driver(start.driver_path, &driver);
  if (!ready) {
    SLUICE_CHECK(link::send_message(link::kWorkerLinkFd, link::Failed{ready.error().message}));
    return fail(ready.error());
  }
  SLUICE_CHECK(link::send_message(link::kWorkerLinkFd, *ready));
  if (start.session_id == link::kInventorySession) ::_exit(0);
  SLUICE_TRY(Turns* const turns, take_turns(std::move(parts)));
  Resumption resumption(proof_of(start));
  SLUICE_TRY(auto channel, await_data_channel(link::kWorkerLinkFd, start, resumption));
  BrokerLedger ledger(link::kWorkerLinkFd);
  Worker worker(driver, std::move(channel), ledger);
  worker.use_turns(
      *turns, turns->hold(start.driver_path) ? Worker::HeldBy::kDriver : Worker::HeldBy::kWorker);
  if (!worker.device_output().take_from_sink(start.driver_path)) {
    SLUICE_CHECK(worker.device_output().take_stdout());
    worker.completer().flush_prints();
  }
  worker.memory().measure_with(process_bytes_of(start.driver_path, driver));
  ledger.before_report([&worker] { worker.report_memory(); });
  ledger.on_recall([&worker] { worker.recall_memory(); });
  ledger.start([&worker] { return worker.stats(); }, [] { ::_exit(0); },
               [&resumption](Fd socket, const link::ResumeData& data) {
                 resumption.take(std::move(socket), data);
               });
  const Status ended = worker.run();
  ledger.finish();
  if (!ended)
    SLUICE_LOG_WARN("session", "session={} tenant={} ended by a protocol error: {}",
                    start.session_id, start.tenant, ended.error().message);
  // Whatever the session still had on the device goes with the process; waiting for it in
  // destructors would only delay that.
  ::_exit(0);
}

/// The message behind those that bring the parts.
Result<link::Received> receive_start(TurnParts* parts) {
  for (;;) {
    auto received = link::receive_message(link::kWorkerLinkFd);
    const auto* part = received ? std::get_if<link::TurnPart>(&received->message) : nullptr;
    if (part == nullptr) return received;
    using Part = link::TurnPart::Part;
    Fd& place = part->part == Part::kGrants ? parts->grants
                : part->part == Part::kUses ? parts->uses
                                            : parts->bell;
    place = std::move(received->passed);
  }
}

}  // namespace
}  // namespace sluice::server

int main() {
  using namespace sluice;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  log_open_from_environment("sluice-worker", LogLevel::kInfo);
  server::TurnParts parts;
  auto received = server::receive_start(&parts);
  if (!received || !std::holds_alternative<server::link::Start>(received->message)) {
    if (received || received.error().code != ErrorCode::kPeerClosed)
      std::fprintf(stderr, "sluice-worker: this program is started by sluiced, not by hand\n");
    return 2;
  }
  const auto ended =
      server::serve(std::get<server::link::Start>(received->message), std::move(parts));
  if (!ended) {
    SLUICE_LOG_ERROR("session", "{}", ended.error().message);
    return 1;
  }
  return 0;
}
