#include "softgpu/exec/program.h"

#include "softgpu/exec/pool.h"
#include "softgpu/jit/jit.h"
#include "softgpu/lower/lower.h"
#include "softgpu/ptx/parser.h"

#include <llvm/IR/LLVMContext.h>

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
  }
  return {LoadFailure::kInvalidPtx, error.text()};
}

class PtxProgram final : public Program {
 public:
  explicit PtxProgram(ptx::Module module) : module_(std::move(module)) {
    for (std::size_t f = 0; f < module_.functions.size(); ++f)
      if (module_.functions[f].is_entry && module_.functions[f].has_body) add_kernel(f);
    for (const ptx::Variable& v : module_.variables) {
      if (v.space != ptx::Space::kGlobal && v.space != ptx::Space::kConst) continue;
      GlobalVariable g{
          v.name, v.size_bytes, v.align_bytes, v.space == ptx::Space::kConst, v.is_visible, v.init,
          {}};
      for (const auto& r : v.relocations)
        g.relocations.push_back({r.offset_bytes, r.symbol, r.addend});
      globals_.push_back(std::move(g));
    }
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
