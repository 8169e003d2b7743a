#include "softgpu/exec/program.h"

#include "common/log.h"
#include "softgpu/exec/pool.h"
#include "softgpu/jit/jit.h"
#include "softgpu/lower/lower.h"
#include "softgpu/ptx/parser.h"

#include <llvm/IR/LLVMContext.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

namespace sluice::softgpu {
namespace {

struct Kernel {
  std::size_t function = 0;
  std::mutex mutex;
  bool is_prepared = false;
  Status status;
  CompiledKernel code;  ///< set by prepare(), which every run() comes after
};

LoadError to_load_error(const ptx::ParseError& error) {
  switch (error.kind) {
    case ptx::ParseError::Kind::kSyntax:
      return {LoadFailure::kInvalidPtx, error.text()};
    case ptx::ParseError::Kind::kVersion:
      return {LoadFailure::kUnsupportedVersion, error.text()};
    case ptx::ParseError::Kind::kUnresolved:
      return {LoadFailure::kUnresolvedSymbol, error.text()};
    case ptx::ParseError::Kind::kUnsupported:
      break;  // of one function, not of a module
  }
  return {LoadFailure::kInvalidPtx, error.text()};
}

/// Where the pointers to a program's functions count from: no memory can lie there, so reading one
/// is a fault, and no other program's pointers are near, so calling one of those is noticed.
std::uint64_t next_functions_address() {
  static std::atomic<std::uint64_t> count{0};
  return 0x00F0'0000'0000'0000u + (count.fetch_add(1) << 28);
}

class PtxProgram final : public Program {
 public:
  explicit PtxProgram(ptx::Module module) : module_(std::move(module)) {
    for (std::size_t f = 0; f < module_.functions.size(); ++f)
      if (module_.functions[f].is_entry && module_.functions[f].has_body) add_kernel(f);
    for (const ptx::Variable& v : module_.variables) {
      if (v.space != ptx::Space::kGlobal && v.space != ptx::Space::kConst) continue;
      if (v.unsupported.empty())
        globals_.push_back(global(v));
      else  // nobody finds it, rather than finding it with a wrong value
        SLUICE_LOG_WARN("softgpu", "variable {}: {}, which softgpu does not support yet", v.name,
                        v.unsupported);
    }
    addresses_[lower::kFunctionsSymbol] = reinterpret_cast<void*>(functions_address_);
  }

  [[nodiscard]] const std::vector<KernelInfo>& kernels() const override { return infos_; }
  [[nodiscard]] const std::vector<GlobalVariable>& globals() const override { return globals_; }
  void set_address(std::string_view global, void* address) override {
    addresses_[lower::symbol_of(std::string(global))] = address;
  }

  Status prepare(std::size_t index) override {
    Kernel& kernel = *kernels_[index];
    const std::lock_guard lock(kernel.mutex);
    if (kernel.is_prepared) return kernel.status;
    kernel.status = compile(&kernel);
    kernel.is_prepared = true;
    return kernel.status;
  }

  LaunchResult run(std::size_t index, const LaunchConfig& config) override {
    const Kernel& kernel = *kernels_[index];
    LaunchResult result = run_grid(kernel.code, config);
    if (!result.detail.empty() && result.outcome != LaunchOutcome::kAssert)
      result.detail = "kernel " + infos_[index].name + ": " + result.detail;
    return result;
  }

 private:
  [[nodiscard]] GlobalVariable global(const ptx::Variable& v) const {
    GlobalVariable out{
        v.name, v.size_bytes, v.align_bytes, v.space == ptx::Space::kConst, v.is_visible, v.init,
        {}};
    for (const auto& r : v.relocations) {
      const auto function = module_.function_index.find(r.symbol);
      if (function == module_.function_index.end()) {
        out.relocations.push_back({r.offset_bytes, r.symbol, r.addend});
        continue;
      }
      const std::uint64_t pointer = functions_address_ + ptx::function_offset(function->second);
      std::memcpy(out.init.data() + r.offset_bytes, &pointer, sizeof pointer);
    }
    return out;
  }

  void add_kernel(std::size_t function) {
    const ptx::Function& f = module_.functions[function];
    KernelInfo info;
    info.name = f.name;
    for (const ptx::Variable& p : f.params) {
      const auto align = static_cast<std::uint32_t>(p.align_bytes);
      info.param_bytes = (info.param_bytes + align - 1) / align * align;
      info.params.push_back({info.param_bytes, static_cast<std::uint32_t>(p.size_bytes), align});
      info.param_bytes += static_cast<std::uint32_t>(p.size_bytes);
    }
    const lower::Footprint used = lower::footprint(module_, f);
    info.static_shared_bytes = used.shared_bytes;
    info.local_bytes = used.local_bytes;
    info.max_threads_per_block = f.max_threads;
    info.ptx_version = module_.version;
    info.target_sm = module_.target_sm;
    infos_.push_back(std::move(info));
    kernels_.push_back(std::make_unique<Kernel>());
    kernels_.back()->function = function;
  }

  Status compile(Kernel* kernel) {
    const std::lock_guard lock(unit_mutex_);
    auto context = std::make_unique<llvm::LLVMContext>();
    SLUICE_TRY(lower::LoweredKernel lowered,
               lower::lower_kernel(module_, module_.functions[kernel->function], *context));
    if (unit_ == nullptr) {
      SLUICE_TRY(unit_, make_code_unit());
      SLUICE_CHECK(unit_->define(addresses_));
    }
    SLUICE_TRY(void* entry,
               unit_->compile(std::move(lowered.module), std::move(context), lowered.entry));
    kernel->code.static_shared_bytes = (lowered.static_shared_bytes + 15) / 16 * 16;
    if (lowered.can_suspend)
      kernel->code.thread = reinterpret_cast<ThreadFunction>(entry);
    else
      kernel->code.block = reinterpret_cast<BlockFunction>(entry);
    return {};
  }

  ptx::Module module_;
  const std::uint64_t functions_address_ = next_functions_address();
  std::vector<KernelInfo> infos_;
  std::vector<GlobalVariable> globals_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::map<std::string, void*> addresses_;
  std::mutex unit_mutex_;
  std::unique_ptr<CodeUnit> unit_;
};

}  // namespace

tl::expected<std::unique_ptr<Program>, LoadError> Program::load(std::string_view ptx) {
  ptx::Module module;
  if (const auto error = ptx::parse_module(std::string(ptx), &module))
    return tl::unexpected(to_load_error(*error));
  return std::unique_ptr<Program>(std::make_unique<PtxProgram>(std::move(module)));
}

}  // namespace sluice::softgpu
