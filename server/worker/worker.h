// The session engine: executes one client's records against one driver. Decodes in order on the
// thread that calls run(); what waits for the device is answered by the Completer's thread. It runs
// in sluice-worker, and in one process with the shim in tests.
#pragma once

#include "driver/driver_table.h"
#include "protocol/record_assembler.h"
#include "server/link.h"
#include "server/worker/completer.h"
#include "server/worker/gpu_meter.h"
#include "server/worker/handles.h"
#include "server/worker/ledger_link.h"
#include "server/worker/outbox.h"
#include "server/worker/staging.h"
#include "transport/transport.h"

#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace sluice::server {

/// Parameter layout of a kernel, as the driver tells it.
struct KernelLayout {
  struct Param {
    std::uint32_t offset_bytes, size_bytes;
  };
  std::vector<Param> params;
  std::uint32_t total_bytes = 0;
};

class Worker final : private wire::RecordHandler {
 public:
  Worker(const DriverTable& driver, std::unique_ptr<transport::Channel> channel,
         LedgerLink& ledger);
  ~Worker() override;

  /// Serves until the peer leaves, says goodbye, or breaks the protocol (the error then says how).
  Status run();
  /// From any thread: ends run().
  void stop() { channel_->close(); }
  [[nodiscard]] link::Stats stats() const;

  // ---- for handlers (decode thread unless said otherwise)
  const DriverTable& driver() const { return driver_; }
  HandleTable& handles() { return handles_; }
  Completer& completer() { return completer_; }
  Outbox& outbox() { return outbox_; }
  StagingPool& staging() { return staging_; }
  LedgerLink& ledger() { return ledger_; }
  GpuMeter& meter() { return meter_; }
  [[nodiscard]] CUcontext current() const { return current_; }
  [[nodiscard]] std::uint32_t current_device() const;

  /// Answers a deferred request; from the completer's thread too.
  void answer(std::uint64_t seq, std::uint16_t opcode, CUresult result,
              std::span<const std::byte> fixed);
  /// Tells the shim that a posted record failed, at once or later; any thread.
  void report_failure(std::uint64_t seq, std::uint16_t opcode, CUresult result);
  /// Runs `action` when everything issued so far in the current context (or only in `stream`) has
  /// completed.
  void after_context(Completer::Kind kind, Completer::Action action);
  /// The same for a given context, which is then no longer current.
  void after_context_of(CUcontext context, Completer::Kind kind, Completer::Action action);
  void after_stream(CUstream stream, Completer::Kind kind, Completer::Action action);
  /// Streams with work since they were last seen complete, so that a context-wide wait covers them.
  void note_work(CUstream stream) {
    if (stream != nullptr) busy_streams_[current_].insert_or_assign(stream, true);
  }
  void forget_stream(CUstream stream) { busy_streams_[current_].erase(stream); }

  /// Contexts by handle, for the ledger: which device each belongs to.
  std::map<CUcontext, std::uint32_t> context_devices;
  /// Device memory by address: what was charged for it.
  struct Allocation {
    std::uint32_t device;
    std::uint64_t charged_bytes;
    CUcontext context;
  };
  std::map<CUdeviceptr, Allocation> allocations;
  std::mutex allocations_mutex;  ///< frees complete on the completer's thread
  std::atomic<unsigned> pending_frees{0};
  std::unordered_map<std::uint64_t, KernelLayout> layouts;  ///< by wire id of a function or kernel
  struct Upload {
    std::vector<std::byte> bytes;
    std::uint64_t received = 0;
  };
  std::map<std::uint64_t, Upload> uploads;
  struct HostFunctions;  ///< server/cuda/launch.cpp
  std::unique_ptr<HostFunctions> host_functions;
  bool is_goodbye = false;
  std::atomic<std::uint64_t> memory_bytes{0}, memory_peak_bytes{0};

 private:
  Status on_record(const wire::RecordHeader& header, std::span<const std::byte> body) override;
  CUresult enter_context(std::uint32_t id);

  const DriverTable& driver_;
  std::unique_ptr<transport::Channel> channel_;
  LedgerLink& ledger_;
  Outbox outbox_;
  StagingPool staging_;
  GpuMeter meter_;
  HandleTable handles_;
  std::map<CUcontext, std::map<CUstream, bool>> busy_streams_;
  CUcontext current_ = nullptr;
  std::uint32_t current_id_ = 0;
  std::uint64_t last_seq_ = 0;
  std::atomic<std::uint64_t> calls_{0}, waits_{0}, received_bytes_{0};
  Completer completer_;  ///< last: its thread uses all of the above
};

}  // namespace sluice::server
