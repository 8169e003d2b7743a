// A kernel, the functions it calls, and the loop over the threads of a block.
#include "softgpu/exec/context.h"
#include "softgpu/lower/function.h"
#include "softgpu/lower/reach.h"
#include "softgpu/lower/suspend.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdlib>

namespace sluice::softgpu::lower {

std::string symbol_of(const std::string& variable) {
  return "var." + variable;
}

namespace {

std::uint32_t align_up(std::uint32_t value, std::size_t align) {
  const auto a = static_cast<std::uint32_t>(align);
  return (value + a - 1) / a * a;
}

/// Module-scope shared variables; extern arrays all start behind the static ones.
void place_module_shared(ModuleState& state) {
  for (const ptx::Variable& v : state.ptx.variables) {
    if (v.space != ptx::Space::kShared || v.is_extern || v.size_bytes == 0) continue;
    const std::uint32_t offset = align_up(state.shared_bytes, v.align_bytes);
    state.shared_offsets["/" + v.name] = offset;
    state.shared_bytes = offset + static_cast<std::uint32_t>(v.size_bytes);
  }
}

void place_extern_shared(ModuleState& state) {
  state.shared_bytes = align_up(state.shared_bytes, 16);
  for (const ptx::Variable& v : state.ptx.variables)
    if (v.space == ptx::Space::kShared && (v.is_extern || v.size_bytes == 0))
      state.shared_offsets["/" + v.name] = state.shared_bytes;
}

void block_loop(llvm::Module& module, llvm::Function* thread, const std::string& name) {
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> b(context);
  auto* out = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false),
                                     llvm::Function::ExternalLinkage, name, module);
  auto* entry = llvm::BasicBlock::Create(context, "entry", out);
  auto* body = llvm::BasicBlock::Create(context, "thread", out);
  auto* done = llvm::BasicBlock::Create(context, "done", out);
  b.SetInsertPoint(entry);
  llvm::Value* n[3];
  for (unsigned k = 0; k < 3; ++k)
    n[k] = b.CreateLoad(b.getInt32Ty(), b.CreateConstGEP1_64(b.getInt8Ty(), out->getArg(0),
                                                             offsetof(BlockContext, ntid) + 4 * k));
  b.CreateBr(body);
  b.SetInsertPoint(body);
  llvm::PHINode* t[3];
  for (auto& phi : t) {
    phi = b.CreatePHI(b.getInt32Ty(), 2);
    phi->addIncoming(b.getInt32(0), entry);
  }
  b.CreateCall(thread, {out->getArg(0), t[0], t[1], t[2]});
  // x fastest, then y, then z
  llvm::Value* x = b.CreateAdd(t[0], b.getInt32(1));
  llvm::Value* wraps_x = b.CreateICmpEQ(x, n[0]);
  llvm::Value* y = b.CreateAdd(t[1], b.CreateZExt(wraps_x, b.getInt32Ty()));
  llvm::Value* wraps_y = b.CreateICmpEQ(y, n[1]);
  llvm::Value* z = b.CreateAdd(t[2], b.CreateZExt(wraps_y, b.getInt32Ty()));
  t[0]->addIncoming(b.CreateSelect(wraps_x, b.getInt32(0), x), body);
  t[1]->addIncoming(b.CreateSelect(wraps_y, b.getInt32(0), y), body);
  t[2]->addIncoming(z, body);
  b.CreateCondBr(b.CreateICmpEQ(z, n[2]), done, body);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
}

llvm::Function* declare(ModuleState& state, const ptx::Function& f) {
  llvm::IRBuilder<> b(state.llvm.getContext());
  std::vector<llvm::Type*> types = {b.getPtrTy(), b.getInt32Ty(), b.getInt32Ty(), b.getInt32Ty()};
  if (!f.is_entry) types.insert(types.end(), f.returns.size() + f.params.size(), b.getPtrTy());
  auto* out = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), types, false),
                                     llvm::Function::InternalLinkage,
                                     f.name + (f.is_entry ? ".thread" : ""), state.llvm);
  if (f.is_entry) out->addFnAttr(llvm::Attribute::AlwaysInline);
  return out;
}

/// SOFTGPU_STRICT=1: mistakes that a GPU punishes are punished here as well.
bool is_strict() {
  const char* text = std::getenv("SOFTGPU_STRICT");
  return text != nullptr && std::string_view(text) == "1";
}

}  // namespace

Footprint footprint(const ptx::Module& module, const ptx::Function& kernel) {
  Footprint out;
  for (const ptx::Variable& v : module.variables)
    if (v.space == ptx::Space::kShared && !v.is_extern)
      out.shared_bytes =
          align_up(out.shared_bytes, v.align_bytes) + static_cast<std::uint32_t>(v.size_bytes);
  for (const Parsed& parsed : reachable(module, kernel))
    for (const ptx::Variable& v : parsed.body.variables) {
      if (v.space == ptx::Space::kShared)
        out.shared_bytes =
            align_up(out.shared_bytes, v.align_bytes) + static_cast<std::uint32_t>(v.size_bytes);
      if (v.space == ptx::Space::kLocal)
        out.local_bytes += static_cast<std::uint32_t>(v.size_bytes);
    }
  return out;
}

Result<LoweredKernel> lower_kernel(const ptx::Module& ptx_module, const ptx::Function& kernel,
                                   llvm::LLVMContext& context) {
  LoweredKernel out;
  out.module = std::make_unique<llvm::Module>(kernel.name, context);
  out.entry = "block." + kernel.name;
  ModuleState state{ptx_module, *out.module, kernel.name, {}, {}, 0, 0, {}, 0, is_strict()};
  place_module_shared(state);
  std::vector<Parsed> functions = reachable(ptx_module, kernel);
  for (const Parsed& parsed : functions) {
    if (!parsed.function->unsupported.empty())
      return fail(ErrorCode::kUnsupported,
                  "kernel " + kernel.name + ": function " + parsed.function->name + ", " +
                      parsed.function->unsupported + ", which softgpu does not support yet");
    for (const ptx::Variable& v :
         parsed.body.variables) {  // before any body, so that the extern arrays have their place
      if (v.space != ptx::Space::kShared) continue;
      const std::uint32_t offset = align_up(state.shared_bytes, v.align_bytes);
      state.shared_offsets[parsed.function->name + "/" + v.name] = offset;
      state.shared_bytes = offset + static_cast<std::uint32_t>(v.size_bytes);
    }
    llvm::Function* f = declare(state, *parsed.function);
    if (!parsed.function->is_entry)
      state.functions[parsed.function->name] = f;
    else
      state.functions[kernel.name + ".thread"] = f;
  }
  out.static_shared_bytes = state.shared_bytes;
  place_extern_shared(state);
  for (const Parsed& parsed : functions) {
    llvm::Function* f =
        state
            .functions[parsed.function->is_entry ? kernel.name + ".thread" : parsed.function->name];
    FunctionLowering(state, *parsed.function, parsed.body, f).run();
    if (!state.error.empty()) return fail(ErrorCode::kUnsupported, state.error);
    let_spinning_loops_yield(*f);
  }
  out.local_bytes = state.local_bytes;
  llvm::Function* thread = state.functions[kernel.name + ".thread"];
  std::string problem = make_coroutine(thread, "thread." + kernel.name, &out.can_suspend);
  if (!problem.empty())
    return fail(ErrorCode::kUnsupported, "kernel " + kernel.name + ": " + problem);
  if (out.can_suspend)
    out.entry = "thread." + kernel.name;
  else
    block_loop(*out.module, thread, out.entry);
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(*out.module, &stream))
    return fail(ErrorCode::kInternal,
                "kernel " + kernel.name + ": softgpu made invalid code: " + problem);
  return out;
}

}  // namespace sluice::softgpu::lower
