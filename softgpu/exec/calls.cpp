// Helpers that act on the running block or end its kernel. The kernel's memory is only read where
// no lock is held and nothing is owned: reading it may fault, which leaves the helper by a jump.
#include "softgpu/exec/context.h"
#include "softgpu/exec/fault.h"
#include "softgpu/exec/helpers.h"
#include "softgpu/exec/services.h"

#include <cstdio>
#include <memory>

namespace sluice::softgpu {
namespace {

/// Longest output of one printf.
constexpr std::size_t kLineBytesMax = 16 * 1024;

KernelServices& services_of(const BlockContext& context) {
  static auto* own = new KernelServices;  // of launches that bring none
  return context.services != nullptr ? *context.services : *own;
}

void trap() {
  leave_kernel(LaunchOutcome::kTrap, "trap instruction");
}

void misaligned(std::uint64_t address, std::uint32_t bytes) {
  char text[80];
  std::snprintf(text, sizeof text, "misaligned access of %u bytes at address %#llx", bytes,
                static_cast<unsigned long long>(address));
  leave_kernel(LaunchOutcome::kMisalignedAddress, text);
}

void no_function(std::uint64_t address) {
  char text[80];
  std::snprintf(text, sizeof text, "call of 0x%llx, where no function of the call's parameters is",
                static_cast<unsigned long long>(address));
  leave_kernel(LaunchOutcome::kInvalidPc, text);
}

void assertfail(const BlockContext* context, std::uint32_t x, std::uint32_t y, std::uint32_t z,
                const char* message, const char* file, std::uint32_t line, const char* function) {
  char text[512];
  std::snprintf(text, sizeof text,
                "%.100s:%u: %.100s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%.150s` "
                "failed.",
                file, line, function, context->ctaid[0], context->ctaid[1], context->ctaid[2], x, y,
                z, message);
  leave_kernel(LaunchOutcome::kAssert, text);
}

std::int32_t print(const BlockContext* context, const char* format, const std::byte* arguments) {
  const UninterruptedScope scope;                    // the C library's printf may allocate
  static thread_local std::unique_ptr<char[]> line;  // owned by the thread: the next line may fault
  if (line == nullptr) line = std::make_unique<char[]>(kLineBytesMax + 1);
  std::size_t bytes = 0;
  const int taken = format_printf(format, arguments, line.get(), kLineBytesMax, &bytes);
  if (bytes > 0) services_of(*context).print({line.get(), bytes});
  return taken;
}

void* allocate(const BlockContext* context, std::uint64_t bytes) {
  const UninterruptedScope scope;
  return services_of(*context).allocate(bytes);
}
void release(const BlockContext* context, void* memory) {
  const UninterruptedScope scope;
  services_of(*context).release(memory);
}

/// A coroutine's frame; all of a block's frames go when the next block starts.
void* frame(BlockContext* context, std::uint64_t bytes) {
  const std::uint64_t wanted = (bytes + 63) / 64 * 64;
  if (wanted > static_cast<std::uint64_t>(context->frames_end - context->frames))
    leave_kernel(LaunchOutcome::kFailed, "the threads of a block need too much local memory");
  void* out = context->frames;
  context->frames += wanted;
  return out;
}

template <class F>
void* address(F* function) {
  return reinterpret_cast<void*>(function);
}

const Helper kHelpers[] = {
    {"softgpu_trap", address(&trap)},
    {"softgpu_misaligned", address(&misaligned)},
    {"softgpu_no_function", address(&no_function)},
    {"softgpu_assertfail", address(&assertfail)},
    {"softgpu_vprintf", address(&print)},
    {"softgpu_malloc", address(&allocate)},
    {"softgpu_free", address(&release)},
    {"softgpu_frame", address(&frame)},
};

}  // namespace

std::span<const Helper> call_helpers() {
  return kHelpers;
}

}  // namespace sluice::softgpu
