// The session engine: executes one client's records against one driver. Decodes in order on the
// thread that calls run(); what waits for the device is answered by the Completer's thread. It runs
// in sluice-worker, and in one process with the shim in tests.
//
// Handlers (server/cuda/<row>.cpp, and generated ones) run on the decode thread and never wait for
// the device: after_stream() and after_context() run an action when the work issued so far has
// completed. The actions may run on either thread, one at a time.
#pragma once

#include "driver/driver_table.h"
#include "protocol/record_assembler.h"
#include "server/link.h"
#include "server/worker/completer.h"
#include "server/worker/copy_gate.h"
#include "server/worker/device_output.h"
#include "server/worker/gpu_meter.h"
#include "server/worker/handles.h"
#include "server/worker/lanes.h"
#include "server/worker/launch_gate.h"
#include "server/worker/ledger_link.h"
#include "server/worker/memory_account.h"
#include "server/worker/outbox.h"
#include "server/worker/shadows.h"
#include "server/worker/shared_staging.h"
#include "server/worker/staging.h"
#include "server/worker/streams.h"
#include "server/worker/turns.h"
#include "server/worker/upload_order.h"
#include "transport/transport.h"

#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
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
  bool is_known = false;  ///< false: the driver does not tell layouts
};

class Worker final : private wire::RecordHandler {
 public:
  Worker(const DriverTable& driver, std::unique_ptr<transport::Channel> channel,
         LedgerLink& ledger);
  ~Worker() override;

  /// Serves until the peer leaves, says goodbye, or breaks the protocol (the error then says how).
  Status run();
  /// From any thread: ends run().
  void stop();
  /// Before run(): `turns` outlives this. The driver asks them itself before it computes, and then
  /// they also measure it exactly; or this does, before it issues a command.
  enum class HeldBy { kDriver, kWorker };
  void use_turns(Turns& turns, HeldBy by);
  /// Any thread: asks the client for memory that it keeps.
  void recall_memory();
  /// Any thread: tells the ledger what is held beside what was drawn.
  void report_memory();
  /// Any thread.
  [[nodiscard]] link::Stats stats() const;

  // ---- for handlers (decode thread unless said otherwise)
  const DriverTable& driver() const { return driver_; }
  HandleTable& handles() { return handles_; }
  StreamTable& streams() { return streams_; }
  Completer& completer() { return completer_; }
  Outbox& outbox() { return outbox_; }
  StagingPool& staging() { return staging_; }
  SharedStaging& shared_staging() { return shared_staging_; }
  Lanes& lanes() { return lanes_; }
  /// The client broke the protocol or is gone: the session ends behind this record.
  void break_off(const Error& why) { broken_ = why; }
  /// Bytes of the program that came or go in it, for the statistics.
  void count_staged(std::uint64_t received_bytes, std::uint64_t sent_bytes) {
    received_bytes_ += received_bytes;
    staged_bytes_ += sent_bytes;
  }
  LedgerLink& ledger() { return ledger_; }
  MemoryAccount& memory() { return memory_; }
  GpuMeter& meter() { return meter_; }
  UploadOrder& upload_order() { return upload_order_; }
  Shadows& shadows() { return shadows_; }
  DeviceOutput& device_output() { return device_output_; }
  [[nodiscard]] CUcontext current() const { return current_; }
  [[nodiscard]] std::uint32_t current_device();

  /// Answers a deferred request; any thread.
  void answer(const wire::RecordHeader& request, CUresult result, std::span<const std::byte> fixed);
  /// Tells the shim that a posted record failed, at once or later; any thread.
  void report_failure(const wire::RecordHeader& request, CUresult result);
  /// Runs `action` when everything issued so far in the current context has completed.
  void after_context(Completer::Action action) { after_context_of(current_, std::move(action)); }
  void after_context_of(CUcontext context, Completer::Action action,
                        Completer::Patience patience = {});
  /// Runs `action`, which calls no driver, when everything issued in any context has completed.
  void after_all_work(std::function<void()> action);
  /// The same for everything issued in any context; `action` runs with `context` current.
  void after_everything(CUcontext context, Completer::Action action);
  /// The same for what was issued in one stream, of whatever context.
  void after_stream(CUstream stream, Completer::Kind kind, Completer::Action action);
  /// The same for the record of the client's event that was just made in the stream.
  void after_record(CUstream stream, CUevent event, Completer::Action action);
  /// Device work is about to be issued in the stream: waits for the turn and starts the
  /// measurement. `cost_key`: what costs the same has the same
  /// (scheduler::CostModel::key_of(); begin_device_work() of call.h makes it).
  void begin_work(CUstream stream, std::uint64_t cost_key);
  /// A copy between host and device that counts in its way's queue.
  struct Copy {
    turns::Way way{};
    std::uint32_t device = 0;
    std::uint64_t bytes = 0;
  };
  /// It is about to be issued in the stream: waits until it may be.
  Copy begin_copy(CUstream stream, turns::Way way, std::uint64_t bytes);
  /// It is over, well or not; any thread.
  void end_copy(const Copy& copy);
  /// Something is about to be issued in the stream (native<CUstream>() does this by itself).
  void note_work(CUstream stream, bool is_upload);
  /// What was just issued in the stream is an upload that later work in every stream comes after.
  void note_upload(CUstream stream) { upload_order_.note(streams_.find(current_, stream)); }
  /// No context is current from here on: it may be about to go.
  void leave_context();

  /// What is known about contexts and device memory; frees complete on the completer's thread.
  std::mutex memory_mutex;
  struct Context {
    std::uint32_t device = 0;
    bool is_primary = false;
    unsigned retains = 0;  ///< wire ids that stand for it
  };
  std::map<CUcontext, Context> contexts;
  struct Allocation {
    MemoryAccount::Amount amount;
    CUcontext context;
  };
  std::map<CUdeviceptr, Allocation> allocations;
  /// Physical memory of cuMemCreate: charged until it is neither held nor mapped.
  struct Block {
    CUmemGenericAllocationHandle handle = 0;
    std::uint64_t bytes = 0;
    std::uint32_t device = 0;
    unsigned mappings = 0;
    bool is_released = false;
  };
  std::map<std::uint64_t, Block> blocks;  ///< by wire id
  struct Mapping {
    std::uint64_t bytes = 0, block = 0;
  };
  std::map<CUdeviceptr, Mapping> mappings;
  std::atomic<unsigned> pending_frees{0};  ///< and unloads

  /// By wire id; functions and kernels are numbered apart.
  std::unordered_map<std::uint64_t, KernelLayout> function_layouts, kernel_layouts;
  struct Upload {
    std::uint64_t total_bytes = 0;
    std::vector<std::byte> bytes;
  };
  std::map<std::uint64_t, Upload> uploads;
  std::uint64_t upload_bytes = 0;  ///< in all of them
  struct HostFunctions;            ///< server/worker/host_functions.h
  std::unique_ptr<HostFunctions> host_functions;
  class Graphs;  ///< server/worker/graphs.h
  std::unique_ptr<Graphs> graphs;
  bool is_goodbye = false;

 private:
  Status on_record(const wire::RecordHeader& header, std::span<const std::byte> body) override;
  Status serve();
  CUresult enter_context(std::uint32_t id);
  [[nodiscard]] std::uint32_t gated_device();
  void refuse_copy(const wire::RecordHeader& header, std::span<const std::byte> body);
  void destroy_finished_streams();
  void before_completions();
  void flush_completions();

  const DriverTable& driver_;
  std::unique_ptr<transport::Channel> channel_;
  LedgerLink& ledger_;
  MemoryAccount memory_;
  const Turns* turns_ = nullptr;  ///< if they measure
  std::unique_ptr<LaunchGate> gate_;
  std::unique_ptr<CopyGate> copy_gate_;
  CUcontext gated_context_ = nullptr;  ///< whose device gated_device_ is: not looked up each time
  std::uint32_t gated_device_ = 0;
  Outbox outbox_;
  StagingPool staging_;
  SharedStaging shared_staging_;
  Lanes lanes_;
  GpuMeter meter_;
  UploadOrder upload_order_;
  Shadows shadows_;
  DeviceOutput device_output_;
  HandleTable handles_;
  StreamTable streams_;
  CUcontext current_ = nullptr;
  std::uint32_t current_id_ = 0;
  std::uint64_t last_seq_ = 0;
  std::optional<Error> broken_;
  std::atomic<std::uint64_t> calls_{0}, waits_{0}, answers_{0}, received_bytes_{0},
      staged_bytes_{0};
  Completer completer_;  ///< last: its thread uses all of the above
};

}  // namespace sluice::server
