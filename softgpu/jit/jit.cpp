#include "softgpu/jit/jit.h"

#include "softgpu/exec/helpers.h"

#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Coroutines/CoroCleanup.h>
#include <llvm/Transforms/Coroutines/CoroEarly.h>
#include <llvm/Transforms/Coroutines/CoroSplit.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <algorithm>
#include <atomic>
#include <mutex>

namespace sluice::softgpu {
namespace {

using namespace llvm::orc;

Error from_llvm(const std::string& doing, llvm::Error error) {
  return Error{ErrorCode::kInternal, doing + ": " + llvm::toString(std::move(error))};
}

/// The one JIT of the process; leaked on purpose, kernels may run until the very end.
struct Engine {
  std::unique_ptr<LLJIT> jit;
  std::unique_ptr<llvm::TargetMachine> target;
  std::mutex mutex;
};

Result<Engine*> make_engine() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto host = JITTargetMachineBuilder::detectHost();
  if (!host) return fail(from_llvm("asking for the CPU", host.takeError()));
  host->setRelocationModel(llvm::Reloc::PIC_);
  host->setCodeModel(llvm::CodeModel::Small);
  host->setCodeGenOptLevel(llvm::CodeGenOptLevel::Less);
  auto target = host->createTargetMachine();
  if (!target) return fail(from_llvm("creating the code generator", target.takeError()));
  auto jit = LLJITBuilder()
                 .setJITTargetMachineBuilder(*host)
                 .setObjectLinkingLayerCreator([](ExecutionSession& session, const llvm::Triple&) {
                   return std::make_unique<ObjectLinkingLayer>(session);
                 })
                 .create();
  if (!jit) return fail(from_llvm("creating the JIT", jit.takeError()));
  auto* engine = new Engine{std::move(*jit), std::move(*target), {}};
  JITDylib& main = engine->jit->getMainJITDylib();
  SymbolMap symbols;
  for (const auto list : {helpers(), call_helpers(), half_atomic_helpers()})
    for (const Helper& helper : list)
      symbols[engine->jit->mangleAndIntern(helper.name)] = {ExecutorAddr::fromPtr(helper.address),
                                                            llvm::JITSymbolFlags::Exported};
  if (auto error = main.define(absoluteSymbols(std::move(symbols))))
    return fail(from_llvm("defining helpers", std::move(error)));
  auto process = DynamicLibrarySearchGenerator::GetForCurrentProcess(
      engine->jit->getDataLayout().getGlobalPrefix());
  if (!process) return fail(from_llvm("searching the process", process.takeError()));
  main.addGenerator(
      std::move(*process));  // memcpy, memset and conversions that the code generator may call
  return engine;
}

Result<Engine*> engine() {
  static const Result<Engine*> instance = make_engine();
  return instance;
}

/// Drops the clones of a coroutine that destroy its frame: nobody does, and each is as large as the
/// whole function before it is simplified.
struct DropDestroyersPass : llvm::PassInfoMixin<DropDestroyersPass> {
  static llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&) {
    for (llvm::Function& f : llvm::make_early_inc_range(module)) {
      if (!f.getName().ends_with(".destroy") && !f.getName().ends_with(".cleanup")) continue;
      f.replaceAllUsesWith(llvm::ConstantPointerNull::get(f.getType()));
      f.eraseFromParent();
    }
    return llvm::PreservedAnalyses::none();
  }
};

/// Little before the split, because the parts are simplified afterwards anyway.
llvm::ModulePassManager coroutine_pipeline(llvm::PassBuilder& builder) {
  llvm::FunctionPassManager before;
  before.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  before.addPass(llvm::EarlyCSEPass());
  before.addPass(llvm::SimplifyCFGPass());
  before.addPass(llvm::InstCombinePass());
  llvm::ModulePassManager out;
  out.addPass(llvm::AlwaysInlinerPass());
  out.addPass(llvm::CoroEarlyPass());
  out.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(before)));
  out.addPass(
      llvm::createModuleToPostOrderCGSCCPassAdaptor(llvm::CoroSplitPass(/*OptimizeFrame=*/true)));
  out.addPass(llvm::CoroCleanupPass());
  out.addPass(DropDestroyersPass());
  out.addPass(llvm::GlobalDCEPass());
  out.addPass(llvm::createModuleToFunctionPassAdaptor(builder.buildFunctionSimplificationPipeline(
      llvm::OptimizationLevel::O1, llvm::ThinOrFullLTOPhase::None)));
  return out;
}

bool has_coroutine(const llvm::Module& module) {
  return std::any_of(module.begin(), module.end(),
                     [](const llvm::Function& f) { return f.isPresplitCoroutine(); });
}

void optimise(llvm::Module& module, llvm::TargetMachine& target) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&target);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  if (has_coroutine(module))
    coroutine_pipeline(builder).run(module, modules);
  else
    builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O1).run(module, modules);
}

class OrcUnit final : public CodeUnit {
 public:
  OrcUnit(Engine* engine, JITDylib* library) : engine_(engine), library_(library) {}
  ~OrcUnit() override {
    const std::lock_guard lock(engine_->mutex);
    if (auto error = engine_->jit->getExecutionSession().removeJITDylib(*library_))
      llvm::consumeError(std::move(error));
  }
  OrcUnit(const OrcUnit&) = delete;
  OrcUnit& operator=(const OrcUnit&) = delete;

  Status define(const std::map<std::string, void*>& symbols) override {
    if (symbols.empty()) return {};
    SymbolMap map;
    for (const auto& [name, address] : symbols)
      map[engine_->jit->mangleAndIntern(name)] = {ExecutorAddr::fromPtr(address),
                                                  llvm::JITSymbolFlags::Exported};
    if (auto error = library_->define(absoluteSymbols(std::move(map))))
      return fail(from_llvm("defining module variables", std::move(error)));
    return {};
  }

  Result<void*> compile(std::unique_ptr<llvm::Module> module,
                        std::unique_ptr<llvm::LLVMContext> context,
                        const std::string& entry) override {
    const std::lock_guard lock(engine_->mutex);
    module->setDataLayout(engine_->jit->getDataLayout());
    module->setTargetTriple(engine_->target->getTargetTriple().str());
    optimise(*module, *engine_->target);
    if (auto error = engine_->jit->addIRModule(
            *library_, ThreadSafeModule(std::move(module), std::move(context))))
      return fail(from_llvm("adding code", std::move(error)));
    auto found = engine_->jit->lookup(*library_, entry);
    if (!found) return fail(from_llvm("compiling " + entry, found.takeError()));
    return found->toPtr<void*>();
  }

 private:
  Engine* engine_;
  JITDylib* library_;
};

}  // namespace

Result<std::unique_ptr<CodeUnit>> make_code_unit() {
  static std::atomic<unsigned> number{0};
  SLUICE_TRY(Engine * shared, engine());
  const std::lock_guard lock(shared->mutex);
  auto library = shared->jit->createJITDylib("module" + std::to_string(number++));
  if (!library) return fail(from_llvm("creating a code unit", library.takeError()));
  library->addToLinkOrder(shared->jit->getMainJITDylib());
  return std::unique_ptr<CodeUnit>(std::make_unique<OrcUnit>(shared, &*library));
}

}  // namespace sluice::softgpu
