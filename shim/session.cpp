#include "shim/session.h"

#include "common/log.h"
#include "protocol/session.h"
#include "shim/decode.h"
#include "shim/handles.h"

#include <algorithm>
#include <cstdio>

namespace sluice::shim {

Session::Session(Connection connection, std::optional<std::string_view> visible_devices,
                 bool is_strict)
    : welcome_(std::move(connection.welcome)),
      server_(std::move(connection.server)),
      devices_(welcome_.devices, visible_devices),
      primary_(static_cast<std::size_t>(devices_.count()), nullptr),
      device_pools_(static_cast<std::size_t>(devices_.count())),
      pipeline_(std::move(connection.channel), std::move(connection.life_line), is_strict, *this,
                optimisations_from_environment(), LifeLine::heartbeat_of(welcome_),
                std::move(connection.resumable)),
      transfers_(pipeline_, deferred_),
      memory_(pipeline_, devices_),
      completions_(pipeline_),
      host_functions_(pipeline_),
      graphs_(pipeline_, transfers_, host_functions_),
      shadows_(pipeline_, addresses_) {}

int Session::driver_version() const {
  return welcome_.driver_version > 0 ? std::min(welcome_.driver_version, CUDA_VERSION)
                                     : CUDA_VERSION;
}

Context* Session::new_context(CUdevice device, unsigned flags) {
  static std::atomic<std::uint64_t> last_serial{0};
  std::lock_guard lock(contexts_mutex_);
  Context& context = contexts_.emplace_back();
  context.serial = ++last_serial;
  context.device = device;
  context.flags = flags;
  context.legacy.context = &context;
  Entry entry;
  entry.object = &context;
  context.handle = new_handle<CUcontext>(entry);
  return &context;
}

Context* Session::primary_context(CUdevice device) {
  {
    std::lock_guard lock(contexts_mutex_);
    if (primary_[static_cast<std::size_t>(device)] != nullptr)
      return primary_[static_cast<std::size_t>(device)];
  }
  Context* made = new_context(device, 0);
  std::lock_guard lock(contexts_mutex_);
  Context*& slot = primary_[static_cast<std::size_t>(device)];
  if (slot == nullptr) {
    made->is_primary = true;
    slot = made;
  }
  return slot;
}

bool Session::has_one_context() {
  std::lock_guard lock(contexts_mutex_);
  return std::count_if(contexts_.begin(), contexts_.end(),
                       [](const Context& known) { return known.is_alive.load(); }) == 1;
}

void Session::note_failure(CUresult result, std::uint32_t context) noexcept {
  if (!is_sticky(result)) {
    deferred_.note(result);
    return;
  }
  std::lock_guard lock(contexts_mutex_);
  for (Context& known : contexts_) {
    const std::uint32_t id = known.wire_id.load();
    if (!known.is_alive || (context != 0 && id != context)) continue;
    int none = CUDA_SUCCESS;
    known.sticky.compare_exchange_strong(none, result);
  }
}

void Session::resolve(wire::Opcode opcode, std::uint64_t seq, CUresult result) {
  switch (opcode) {
    case wire::Opcode::event_record:
      completions_.on_record_failed(seq, result);
      break;
    case wire::Opcode::stream_marker:
      completions_.on_marker_failed(seq, result);
      break;
    case wire::Opcode::copy_d2h:
    case wire::Opcode::copy_d2h_staged:
      transfers_.on_read_failed(seq, result);
      break;
    case wire::Opcode::copy_h2d_staged:
      transfers_.on_write_failed(seq);
      break;
    case wire::Opcode::host_func:
      host_functions_.on_launch_failed(seq, result);
      break;
    case wire::Opcode::graph_launch:
      graphs_.on_launch_failed(seq, result);
      break;
    default:
      break;  // nobody waits for anything of it
  }
}

Status Session::on_push(const wire::RecordHeader& header, Bytes body) {
  const auto opcode = static_cast<wire::Opcode>(header.opcode);
  // Host data precedes the news that implies it; only more of it may come in between.
  if (opcode != wire::Opcode::host_data_staged) SLUICE_CHECK(finish_begun());
  switch (opcode) {
    case wire::Opcode::host_data:
      return transfers_.on_host_data(header, body);
    case wire::Opcode::host_data_staged:
      return transfers_.on_host_data_staged(header, body);
    case wire::Opcode::staging_free:
      return transfers_.on_staging_free(body);
    case wire::Opcode::copy_credit:
      return transfers_.on_credit(body);
    case wire::Opcode::event_done:
      return completions_.on_event_done(header, body);
    case wire::Opcode::marker_done:
      return completions_.on_marker_done(header, body);
    case wire::Opcode::host_func_run:
      return host_functions_.on_run(header, body);
    case wire::Opcode::device_output: {
      // To the program's own stdout, so that it keeps its place among what the program prints.
      SLUICE_TRY(const auto push, decode<wire::device_output>(body));
      std::fwrite(push.blobs[0].data(), 1, push.blobs[0].size(), stdout);
      std::fflush(stdout);
      return {};
    }
    case wire::Opcode::shadow_data:
      return shadows_.on_data(body);
    case wire::Opcode::memory_fence_done:
      memory_.on_fence_done(header.seq);
      return {};
    case wire::Opcode::memory_recall:
      memory_.on_recall();
      return {};
    case wire::Opcode::graph_done:
      return graphs_.on_done(header, body);
    case wire::Opcode::failure: {
      SLUICE_TRY(const auto push, decode<wire::failure>(body));
      const auto result = static_cast<CUresult>(header.result);
      if (result == CUDA_SUCCESS) return fail(ErrorCode::kProtocol, "a failure that is none");
      SLUICE_LOG_DEBUG("session", "A posted {} failed: {} (seq={})",
                       wire::opcode_name(static_cast<wire::Opcode>(push.fixed.opcode)),
                       error_name(result) != nullptr ? error_name(result) : "?", header.seq);
      const auto failed = static_cast<wire::Opcode>(push.fixed.opcode);
      resolve(failed, header.seq, result);
      // Failed reads and markers are reported by those who asked for them.
      const bool is_reported = failed == wire::Opcode::copy_d2h ||
                               failed == wire::Opcode::copy_d2h_staged ||
                               failed == wire::Opcode::stream_marker;
      if (!is_reported || is_sticky(result)) note_failure(result, header.context);
      return {};
    }
    default:
      return fail(ErrorCode::kProtocol, format("an unexpected push, opcode={}", header.opcode));
  }
}

}  // namespace sluice::shim
