// What softgpu exports besides the driver API, found by dlsym. A server measures what its workers
// take of a device. A worker, whose own stdout nobody
// reads, asks for the text that kernels print; null restores stdout and stderr. The printf sink
// gets a launch's text before the launch counts as finished, on the thread that ran it. And a
// worker that shares the device with others says when it may compute (common/turn_hooks.h).
#include "softgpu/api/state.h"
#include "softgpu/exec/services.h"
#include "softgpu/exec/turn.h"

#include <unistd.h>

#include <cstdint>

#define SOFTGPU_OWN_API extern "C" __attribute__((visibility("default"))) void

SOFTGPU_OWN_API softgpu_set_printf_sink(sluice::softgpu::TextSink sink, void* user) {
  sluice::softgpu::set_printf_sink(sink, user);
}
SOFTGPU_OWN_API softgpu_set_assert_sink(sluice::softgpu::TextSink sink, void* user) {
  sluice::softgpu::set_assert_sink(sink, user);
}
/// Bytes of the device's memory that a process has: `pid`, or 0 for the calling one. False: the
/// driver is not initialised, or there is no such device.
extern "C" __attribute__((visibility("default"))) bool softgpu_process_bytes(int device, int pid,
                                                                             std::uint64_t* bytes) {
  using namespace sluice::softgpu;
  Device* const found = initialised() == CUDA_SUCCESS ? device_of(device) : nullptr;
  if (found == nullptr || bytes == nullptr) return false;
  *bytes = found->arena->account().used_bytes_of(pid != 0 ? pid : ::getpid());
  return true;
}
extern "C" __attribute__((visibility("default"))) bool softgpu_set_turn_hooks(
    const sluice_turn_hooks* hooks) {
  return sluice::softgpu::set_turn_hooks(hooks);
}
