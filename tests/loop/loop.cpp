// libcuda.so.1 of the target shim+loop: the shim and a worker in one process, joined by a loop
// channel, over the driver named by SLUICE_LOOP_DRIVER. Tests only: nothing is isolated.
#include "common/log.h"
#include "protocol/opcodes.h"
#include "server/worker/driver_start.h"
#include "server/worker/process_bytes.h"
#include "server/worker/worker.h"
#include "shim/connect.h"

#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace sluice {
namespace {

Result<shim::Connection> connect_loop() {
  const char* path = std::getenv("SLUICE_LOOP_DRIVER");
  if (path == nullptr)
    return fail(ErrorCode::kNotFound, "SLUICE_LOOP_DRIVER names no libcuda.so.1");
  // Never destroyed: the worker's thread runs until the process ends.
  static auto* const driver = new DriverTable;
  static auto* const ledger = new server::LocalLedger;
  // The driver must not see what only concerns the client; on a server it runs in another
  // environment.
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string kept = visible != nullptr ? visible : "";
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  auto started = server::start_driver(path, driver);
  if (visible != nullptr) ::setenv("CUDA_VISIBLE_DEVICES", kept.c_str(), 1);
  if (!started) return fail(started.error());
  server::link::Ready ready = std::move(*started);
  transport::LoopPair pair = transport::make_loop_pair();
  static auto* const worker = new server::Worker(*driver, std::move(pair.server), *ledger);
  worker->memory().measure_with(server::process_bytes_of(path, *driver));
  worker->shadows().is_shared = true;
  worker->device_output().take_from_sink(path);
  std::thread([] {
    if (const auto ended = worker->run(); !ended)
      SLUICE_LOG_ERROR("session", "{}", ended.error().message);
  }).detach();
  shim::Connection connection;
  connection.channel = std::move(pair.client);
  connection.server = "loop:";
  connection.welcome.protocol_version = wire::kProtocolVersion;
  connection.welcome.session_id = 1;
  connection.welcome.driver_version = ready.driver_version;
  connection.welcome.worker_pid = ::getpid();
  connection.welcome.devices = std::move(ready.devices);
  return connection;
}

[[gnu::constructor]] void use_loop() {
  shim::set_connector_for_test(connect_loop);
}

}  // namespace
}  // namespace sluice
