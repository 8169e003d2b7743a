// One connection to a worker and everything that lives as long as it: the pipeline, the tables that
// pushes fill, the address map, the contexts. A process has at most one, made by cuInit.
#pragma once

#include "shim/addresses.h"
#include "shim/capture.h"
#include "shim/completions.h"
#include "shim/connect.h"
#include "shim/device_memory.h"
#include "shim/devices.h"
#include "shim/errors.h"
#include "shim/graphs.h"
#include "shim/host_functions.h"
#include "shim/objects.h"
#include "shim/pipeline.h"
#include "shim/shadows.h"
#include "shim/transfers.h"

#include <deque>
#include <string>

namespace sluice::shim {

/// Thread-safe.
class Session final : private PushHandler {
 public:
  Session(Connection connection, std::optional<std::string_view> visible_devices, bool is_strict);
  ~Session() override { pipeline_.end(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] Pipeline& pipeline() { return pipeline_; }
  [[nodiscard]] Transfers& transfers() { return transfers_; }
  [[nodiscard]] DeviceMemory& memory() { return memory_; }
  [[nodiscard]] Completions& completions() { return completions_; }
  [[nodiscard]] HostFunctions& host_functions() { return host_functions_; }
  [[nodiscard]] Graphs& graphs() { return graphs_; }
  [[nodiscard]] Captures& captures() { return captures_; }
  [[nodiscard]] Shadows& shadows() { return shadows_; }
  [[nodiscard]] Addresses& addresses() { return addresses_; }
  [[nodiscard]] Deferred& deferred() { return deferred_; }
  [[nodiscard]] const Devices& devices() const { return devices_; }
  [[nodiscard]] const wire::Welcome& welcome() const { return welcome_; }
  [[nodiscard]] const std::string& server() const { return server_; }
  [[nodiscard]] int driver_version() const;

  /// A context object with a handle; not alive yet. The primary one of a device is always the same
  /// object.
  Context* new_context(CUdevice device, unsigned flags);
  Context* primary_context(CUdevice device);
  DevicePools& device_pools(CUdevice device) {
    return device_pools_[static_cast<std::size_t>(device)];
  }
  /// What completes in it completes everywhere.
  [[nodiscard]] bool has_one_context();
  std::mutex& contexts_mutex() { return contexts_mutex_; }
  std::uint32_t next_context_id() { return ++last_context_id_; }

  /// A failure of posted work: the next call reports it, or every call if it is sticky. `context` 0
  /// = all.
  void note_failure(CUresult result, std::uint32_t context) noexcept;

 private:
  Status on_push(const wire::RecordHeader& header, Bytes body) override;
  Result<bool> finish_begun() override { return transfers_.finish_fetches(); }
  void on_quiet() noexcept override { memory_.on_quiet(); }
  /// Whoever waits for what a failed record should have brought gets the failure instead.
  void resolve(wire::Opcode opcode, std::uint64_t seq, CUresult result);

  wire::Welcome welcome_;
  std::string server_;
  Devices devices_;
  Deferred deferred_;
  Addresses addresses_;
  std::mutex contexts_mutex_;
  std::deque<Context> contexts_;  ///< stable addresses; never shrinks
  std::vector<Context*> primary_;
  std::atomic<std::uint32_t> last_context_id_{0};
  std::deque<DevicePools> device_pools_;
  Pipeline pipeline_;
  Transfers transfers_;
  DeviceMemory memory_;
  Completions completions_;
  HostFunctions host_functions_;
  Graphs graphs_;
  Shadows shadows_;
  Captures captures_;
};

}  // namespace sluice::shim
