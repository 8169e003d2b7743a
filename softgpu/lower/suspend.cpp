#include "softgpu/lower/suspend.h"

#include "softgpu/exec/context.h"
#include "softgpu/lower/function.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Local.h>

#include <set>

namespace sluice::softgpu::lower {
namespace {

using llvm::BasicBlock;
using llvm::CallInst;
using llvm::Function;
using llvm::Instruction;
using llvm::Value;

constexpr char kMarker[] = "softgpu.suspend";
constexpr char kExitMarker[] = "softgpu.exit";
/// Rounds of a spinning loop before other threads run.
constexpr std::uint32_t kSpinRounds = 64;
/// Instructions of a kernel after all that suspends was brought into it.
constexpr std::size_t kInlinedMax = 2'000'000;

CallInst* call_of(Instruction& i, const char* name) {
  auto* call = llvm::dyn_cast<CallInst>(&i);
  const Function* callee = call != nullptr ? call->getCalledFunction() : nullptr;
  return callee != nullptr && callee->getName() == name ? call : nullptr;
}

std::vector<CallInst*> calls_of(Function* f, const char* name) {
  std::vector<CallInst*> out;
  for (Instruction& i : llvm::instructions(f))
    if (CallInst* call = call_of(i, name)) out.push_back(call);
  return out;
}

/// Can this read what another thread writes meanwhile, and does anybody look at it?
bool is_watching(const Instruction& i) {
  if (i.use_empty()) return false;
  if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(&i))
    return load->isVolatile() || load->isAtomic();
  if (llvm::isa<llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst>(i)) return true;
  const auto* call = llvm::dyn_cast<CallInst>(&i);
  const Function* callee = call != nullptr ? call->getCalledFunction() : nullptr;
  return callee != nullptr && callee->getName().starts_with("softgpu_atom_");
}

bool may_spin(const llvm::Loop& loop) {
  for (const BasicBlock* block : loop.blocks())
    for (const Instruction& i : *block)
      if (is_watching(i)) return true;
  return false;
}

/// Before the jump back: every so many rounds the thread yields.
void insert_yield(BasicBlock* latch, BasicBlock* header, llvm::AllocaInst* rounds) {
  BasicBlock* edge = llvm::SplitEdge(latch, header);
  llvm::IRBuilder<> b(edge->getTerminator());
  Value* round = b.CreateAdd(b.CreateLoad(b.getInt32Ty(), rounds), b.getInt32(1));
  b.CreateStore(round, rounds);
  Value* is_due = b.CreateICmpEQ(b.CreateAnd(round, b.getInt32(kSpinRounds - 1)), b.getInt32(0));
  b.SetInsertPoint(llvm::SplitBlockAndInsertIfThen(is_due, edge->getTerminator(), false));
  Function* f = edge->getParent();
  b.CreateStore(
      b.getInt32(static_cast<std::uint32_t>(Wait::kYield)),
      b.CreateConstGEP1_64(b.getInt8Ty(), record_of_thread(b, f), offsetof(ThreadRecord, wait)));
  b.CreateCall(suspend_marker(*f->getParent()));
}

/// Functions with a place to suspend or to end, directly or through what they call.
std::set<Function*> suspending_functions(llvm::Module& module) {
  std::set<Function*> out;
  std::vector<Function*> waiting;
  for (const char* marker : {kMarker, kExitMarker})
    if (Function* f = module.getFunction(marker)) waiting.push_back(f);
  while (!waiting.empty()) {
    Function* callee = waiting.back();
    waiting.pop_back();
    for (llvm::User* user : callee->users())
      if (auto* call = llvm::dyn_cast<CallInst>(user);
          call != nullptr && out.insert(call->getFunction()).second)
        waiting.push_back(call->getFunction());
  }
  return out;
}

bool is_recursive(Function* f, const std::set<Function*>& among, std::set<Function*>* on_path,
                  std::set<Function*>* finished) {
  if (finished->contains(f)) return false;
  if (!on_path->insert(f).second) return true;
  for (Instruction& i : llvm::instructions(f))
    if (auto* call = llvm::dyn_cast<CallInst>(&i))
      if (Function* callee = call->getCalledFunction(); callee != nullptr && among.contains(callee))
        if (is_recursive(callee, among, on_path, finished)) return true;
  on_path->erase(f);
  finished->insert(f);
  return false;
}

CallInst* call_to_inline(Function* f, const std::set<Function*>& suspending) {
  for (Instruction& i : llvm::instructions(f))
    if (auto* call = llvm::dyn_cast<CallInst>(&i))
      if (suspending.contains(call->getCalledFunction())) return call;
  return nullptr;
}

std::string inline_what_suspends(Function* thread, const std::set<Function*>& suspending) {
  std::set<Function*> on_path;
  std::set<Function*> finished;
  if (is_recursive(thread, suspending, &on_path, &finished))
    return "a function that may call itself, perhaps through a pointer, waits for other threads or "
           "ends its thread, which softgpu does not support";
  while (CallInst* call = call_to_inline(thread, suspending)) {
    llvm::InlineFunctionInfo info;
    if (!llvm::InlineFunction(*call, info).isSuccess())
      return "a function that waits for other threads could not be inlined";
    if (thread->getInstructionCount() > kInlinedMax)
      return "the functions that wait for other threads make the kernel too large";
  }
  return {};
}

/// Builds the frame of the coroutine around a body that still has markers and returns.
class Coroutine {
 public:
  explicit Coroutine(Function* f)
      : f_(f), module_(*f->getParent()), context_(f->getContext()), b_(context_) {}

  void build() {
    BasicBlock* body = &f_->getEntryBlock();
    open(body);
    end_ = BasicBlock::Create(context_, "suspend", f_);
    cleanup_ = BasicBlock::Create(context_, "cleanup", f_);
    BasicBlock* finish = BasicBlock::Create(context_, "finish", f_);
    const std::vector<CallInst*> markers = calls_of(f_, kMarker);
    std::vector<llvm::ReturnInst*> returns;
    for (Instruction& i : llvm::instructions(f_))
      if (auto* ret = llvm::dyn_cast<llvm::ReturnInst>(&i)) returns.push_back(ret);
    for (llvm::ReturnInst* ret : returns) {
      llvm::BranchInst::Create(finish, ret->getParent());
      ret->eraseFromParent();
    }
    for (CallInst* marker : markers) {
      BasicBlock* before = marker->getParent();
      BasicBlock* after = before->splitBasicBlock(marker, "resumed");
      marker->eraseFromParent();
      before->getTerminator()->eraseFromParent();
      suspend(before, after, false);
    }
    b_.SetInsertPoint(finish);
    b_.CreateStore(b_.getInt32(static_cast<std::uint32_t>(Wait::kExited)),
                   b_.CreateConstGEP1_64(b_.getInt8Ty(), record_of_thread(b_, f_),
                                         offsetof(ThreadRecord, wait)));
    BasicBlock* never = BasicBlock::Create(context_, "never", f_);
    suspend(finish, never, true);
    b_.SetInsertPoint(never);
    b_.CreateUnreachable();
    close();
    f_->setPresplitCoroutine();
  }

 private:
  llvm::Function* intrinsic(llvm::Intrinsic::ID id, llvm::ArrayRef<llvm::Type*> types = {}) {
    return llvm::Intrinsic::getDeclaration(&module_, id, types);
  }

  void open(BasicBlock* body) {
    BasicBlock* entry = BasicBlock::Create(context_, "coroutine", f_, body);
    b_.SetInsertPoint(entry);
    Value* none = llvm::ConstantPointerNull::get(b_.getPtrTy());
    id_ = b_.CreateCall(intrinsic(llvm::Intrinsic::coro_id), {b_.getInt32(64), none, none, none});
    Value* size = b_.CreateCall(intrinsic(llvm::Intrinsic::coro_size, {b_.getInt64Ty()}));
    Value* memory = b_.CreateCall(
        module_.getOrInsertFunction("softgpu_frame", b_.getPtrTy(), b_.getPtrTy(), b_.getInt64Ty()),
        {f_->getArg(0), size});
    handle_ = b_.CreateCall(intrinsic(llvm::Intrinsic::coro_begin), {id_, memory});
    Instruction* jump = b_.CreateBr(body);
    // Variables belong before everything, or they are no static part of the frame.
    for (Instruction& i : llvm::make_early_inc_range(*body))
      if (llvm::isa<llvm::AllocaInst>(i)) i.moveBefore(&*entry->begin());
    static_cast<void>(jump);
  }

  void suspend(BasicBlock* before, BasicBlock* after, bool is_final) {
    b_.SetInsertPoint(before);
    Value* how = b_.CreateCall(intrinsic(llvm::Intrinsic::coro_suspend),
                               {llvm::ConstantTokenNone::get(context_), b_.getInt1(is_final)});
    llvm::SwitchInst* next = b_.CreateSwitch(how, end_, 2);
    next->addCase(b_.getInt8(0), after);
    next->addCase(b_.getInt8(1), cleanup_);
  }

  /// Frames are never destroyed one by one, so there is nothing to free.
  void close() {
    b_.SetInsertPoint(cleanup_);
    b_.CreateCall(intrinsic(llvm::Intrinsic::coro_free), {id_, handle_});
    b_.CreateBr(end_);
    b_.SetInsertPoint(end_);
    b_.CreateCall(intrinsic(llvm::Intrinsic::coro_end),
                  {handle_, b_.getFalse(), llvm::ConstantTokenNone::get(context_)});
    b_.CreateRet(handle_);
  }

  Function* f_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  Value* id_ = nullptr;
  Value* handle_ = nullptr;
  BasicBlock* end_ = nullptr;
  BasicBlock* cleanup_ = nullptr;
};

}  // namespace

llvm::FunctionCallee suspend_marker(llvm::Module& module) {
  return module.getOrInsertFunction(kMarker, llvm::Type::getVoidTy(module.getContext()));
}

llvm::FunctionCallee exit_marker(llvm::Module& module) {
  return module.getOrInsertFunction(kExitMarker, llvm::Type::getVoidTy(module.getContext()));
}

llvm::Value* record_of_thread(llvm::IRBuilder<>& b, llvm::Function* f) {
  const auto u32_of_context = [&](std::size_t offset_bytes) {
    return b.CreateLoad(b.getInt32Ty(),
                        b.CreateConstGEP1_64(b.getInt8Ty(), f->getArg(0), offset_bytes));
  };
  Value* nx = u32_of_context(offsetof(BlockContext, ntid));
  Value* ny = u32_of_context(offsetof(BlockContext, ntid) + 4);
  Value* rows = b.CreateAdd(f->getArg(2), b.CreateMul(ny, f->getArg(3)));
  Value* index = b.CreateAdd(f->getArg(1), b.CreateMul(nx, rows));
  Value* records = b.CreateLoad(
      b.getPtrTy(),
      b.CreateConstGEP1_64(b.getInt8Ty(), f->getArg(0), offsetof(BlockContext, threads)));
  return b.CreateGEP(
      b.getInt8Ty(), records,
      b.CreateMul(b.CreateZExt(index, b.getInt64Ty()), b.getInt64(sizeof(ThreadRecord))));
}

void let_spinning_loops_yield(Function& function) {
  llvm::DominatorTree dominators(function);
  const llvm::LoopInfo loops(dominators);
  std::vector<std::pair<BasicBlock*, BasicBlock*>> back_edges;
  for (llvm::Loop* loop : loops.getLoopsInPreorder()) {
    if (!may_spin(*loop)) continue;
    llvm::SmallVector<BasicBlock*> latches;
    loop->getLoopLatches(latches);
    for (BasicBlock* latch : latches) back_edges.emplace_back(latch, loop->getHeader());
  }
  if (back_edges.empty()) return;
  llvm::IRBuilder<> b(&*function.getEntryBlock().begin());
  llvm::AllocaInst* rounds = b.CreateAlloca(b.getInt32Ty());
  b.CreateStore(b.getInt32(0), rounds);
  for (const auto& [latch, header] : back_edges) insert_yield(latch, header, rounds);
}

std::string make_coroutine(Function* thread, const std::string& name, bool* out) {
  llvm::Module& module = *thread->getParent();
  const std::set<Function*> suspending = suspending_functions(module);
  *out = false;
  if (!suspending.contains(thread)) return {};
  if (std::string problem = inline_what_suspends(thread, suspending); !problem.empty())
    return problem;
  for (CallInst* end : calls_of(thread, kExitMarker)) {
    BasicBlock* block = end->getParent();
    llvm::changeToUnreachable(end);  // with all that stands behind it
    Instruction* unreachable = block->getTerminator();
    llvm::ReturnInst::Create(module.getContext(), nullptr, unreachable->getIterator());
    unreachable->eraseFromParent();
  }
  *out = !calls_of(thread, kMarker).empty();
  if (!*out) return {};
  llvm::LLVMContext& context = module.getContext();
  auto* type = llvm::FunctionType::get(llvm::PointerType::getUnqual(context),
                                       thread->getFunctionType()->params(), false);
  Function* coroutine = Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  coroutine->splice(coroutine->begin(), thread);
  for (unsigned k = 0; k < thread->arg_size(); ++k)
    thread->getArg(k)->replaceAllUsesWith(coroutine->getArg(k));
  thread->eraseFromParent();
  for (Function* f : suspending)  // inlined: nobody calls them any more
    if (f != thread && f->use_empty()) f->eraseFromParent();
  Coroutine(coroutine).build();
  return {};
}

}  // namespace sluice::softgpu::lower
