// The seam between softgpu's driver API (softgpu/api) and its compiler (ptx, lower, jit, exec): PTX
// text in, kernels that run on CPU threads out. Knows no CUDA handles. A generic, .global, .const
// or .local address is a host pointer.
#pragma once

#include "common/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::softgpu {

class KernelServices;

enum class LoadFailure { kInvalidPtx, kUnsupportedVersion, kUnresolvedSymbol };
struct LoadError {
  LoadFailure failure = LoadFailure::kInvalidPtx;
  std::string log;  ///< "line 8: ..." for the JIT error log buffer
};

/// A module-scope .global/.const variable. The API side allocates it, fills it from `init` (zeroes
/// behind it), applies `relocations`, and gives its address back through Program::set_address.
struct GlobalVariable {
  struct Relocation {
    std::size_t offset_bytes = 0;  ///< an 8-byte word in `init` that holds the address of...
    std::string symbol;            ///< ...this variable of the same module
    std::int64_t addend = 0;
  };
  std::string name;
  std::size_t size_bytes = 0;
  std::size_t align_bytes = 1;
  bool is_const = false;
  bool is_visible = false;  ///< .visible/.weak/.common: cuModuleGetGlobal finds it
  std::vector<std::byte> init;
  std::vector<Relocation> relocations;
};

struct KernelParam {
  std::uint32_t offset_bytes = 0, size_bytes = 0, align_bytes = 1;
};

struct KernelInfo {
  std::string name;
  std::vector<KernelParam> params;
  std::uint32_t param_bytes = 0;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t local_bytes = 0;
  std::uint32_t max_threads_per_block = 1024;  ///< .maxntid product, capped at 1024
  int ptx_version = 0;                         ///< e.g. 90 for .version 9.0
  int target_sm = 0;                           ///< e.g. 75
};

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};
struct LaunchConfig {
  Dim3 grid, block;
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> params;  ///< KernelInfo::param_bytes, copied at launch
  bool is_cooperative = false;    ///< all blocks run interleaved; grid-wide barriers work
  unsigned device = 0;            ///< whose turns it takes (exec/turn.h)
  /// Polled between blocks and by the watchdog; true stops the grid (context teardown), even in an
  /// endless loop. Must not block.
  std::function<bool()> is_cancelled;
  std::shared_ptr<KernelServices> services;  ///< null: the process's own
};
enum class LaunchOutcome {
  kOk,
  kIllegalAddress,
  kMisalignedAddress,
  kInvalidPc,  ///< a call of an address where no function is
  kTrap,
  kAssert,
  kCancelled,
  kFailed
};
struct LaunchResult {
  LaunchOutcome outcome = LaunchOutcome::kOk;
  std::string detail;  ///< for the log: kernel, address, block; for kAssert CUDA's own message
};

/// One PTX module. Thread-safe after all set_address calls; kernels compile on first use, once.
class Program {
 public:
  /// Parses everything needed to know kernels and globals; bodies are parsed later, but syntax
  /// errors, unknown base opcodes never documented in the PTX ISA, and calls to undefined functions
  /// are found here.
  static tl::expected<std::unique_ptr<Program>, LoadError> load(std::string_view ptx);
  virtual ~Program() = default;

  [[nodiscard]] virtual const std::vector<KernelInfo>& kernels() const = 0;
  [[nodiscard]] virtual const std::vector<GlobalVariable>& globals() const = 0;
  virtual void set_address(std::string_view global, void* address) = 0;

  /// Compiles if need be. kUnsupported names the kernel and the instruction; nothing runs then.
  virtual Status prepare(std::size_t kernel_index) = 0;
  /// Runs the whole grid on the worker pool and returns when it is done; a memory fault of a kernel
  /// ends the grid with kIllegalAddress, the process lives. prepare() must have succeeded.
  virtual LaunchResult run(std::size_t kernel_index, const LaunchConfig& config) = 0;
};

/// Number of threads that work on one grid: SOFTGPU_THREADS, default the machine's cores.
unsigned worker_thread_count();

}  // namespace sluice::softgpu
