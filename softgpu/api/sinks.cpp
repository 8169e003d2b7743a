// What softgpu exports besides the driver API: a worker, whose own stdout nobody reads, asks for
// the text that kernels print. Found by dlsym; null restores stdout and stderr. The printf sink
// gets a launch's text before the launch counts as finished, on the thread that ran it.
#include "softgpu/exec/services.h"

#define SOFTGPU_OWN_API extern "C" __attribute__((visibility("default"))) void

SOFTGPU_OWN_API softgpu_set_printf_sink(sluice::softgpu::TextSink sink, void* user) {
  sluice::softgpu::set_printf_sink(sink, user);
}
SOFTGPU_OWN_API softgpu_set_assert_sink(sluice::softgpu::TextSink sink, void* user) {
  sluice::softgpu::set_assert_sink(sink, user);
}
