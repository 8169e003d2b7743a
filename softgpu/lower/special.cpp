// Special registers, and the parts of the block's context that they come from.
#include "softgpu/lower/function.h"

namespace sluice::softgpu::lower {

FunctionLowering::Value* FunctionLowering::context_u32(std::size_t offset_bytes) {
  return b_.CreateLoad(b_.getInt32Ty(),
                       b_.CreateConstGEP1_64(b_.getInt8Ty(), block_context_, offset_bytes));
}

FunctionLowering::Value* FunctionLowering::context_pointer(std::size_t offset_bytes) {
  return b_.CreateLoad(b_.getPtrTy(),
                       b_.CreateConstGEP1_64(b_.getInt8Ty(), block_context_, offset_bytes));
}

FunctionLowering::Value* FunctionLowering::special(const Instruction& i, const std::string& name) {
  const std::string axis =
      name.size() > 2 && name[name.size() - 2] == '.' ? name.substr(name.size() - 1) : "";
  const std::string base = axis.empty() ? name : name.substr(0, name.size() - 2);
  const std::size_t k = axis == "y" ? 1 : axis == "z" ? 2 : 0;
  const auto linear = [&] {
    Value* ntid_x = context_u32(offsetof(BlockContext, ntid));
    Value* ntid_y = context_u32(offsetof(BlockContext, ntid) + 4);
    return b_.CreateAdd(
        thread_[0],
        b_.CreateMul(ntid_x, b_.CreateAdd(thread_[1], b_.CreateMul(ntid_y, thread_[2]))));
  };
  if (!axis.empty() && axis != "w") {
    if (base == "%tid") return thread_[k];
    if (base == "%ntid") return context_u32(offsetof(BlockContext, ntid) + 4 * k);
    if (base == "%ctaid") return context_u32(offsetof(BlockContext, ctaid) + 4 * k);
    if (base == "%nctaid") return context_u32(offsetof(BlockContext, nctaid) + 4 * k);
    if (base == "%clusterid") return context_u32(offsetof(BlockContext, ctaid) + 4 * k);
    if (base == "%cluster_ctaid") return b_.getInt32(0);
    if (base == "%cluster_nctaid") return b_.getInt32(1);
  }
  Value* lane = b_.CreateAnd(linear(), b_.getInt32(31));
  if (name == "%laneid") return lane;
  if (name == "%warpid") return b_.CreateLShr(linear(), b_.getInt32(5));
  if (name == "%lanemask_eq") return b_.CreateShl(b_.getInt32(1), lane);
  if (name == "%lanemask_lt")
    return b_.CreateSub(b_.CreateShl(b_.getInt32(1), lane), b_.getInt32(1));
  if (name == "%lanemask_le")
    return b_.CreateSub(b_.CreateShl(b_.getInt32(2), lane), b_.getInt32(1));
  if (name == "%lanemask_gt")
    return b_.CreateNot(b_.CreateSub(b_.CreateShl(b_.getInt32(2), lane), b_.getInt32(1)));
  if (name == "%lanemask_ge")
    return b_.CreateNot(b_.CreateSub(b_.CreateShl(b_.getInt32(1), lane), b_.getInt32(1)));
  if (name == "%dynamic_smem_size")
    return context_u32(offsetof(BlockContext, dynamic_shared_bytes));
  if (name == "%total_smem_size") return context_u32(offsetof(BlockContext, total_shared_bytes));
  if (name == "%gridid")
    return b_.CreateZExt(context_u32(offsetof(BlockContext, grid_id)), b_.getInt64Ty());
  if (name == "%clock" || name == "%clock_hi" || name == "%clock64" || name == "%globaltimer" ||
      name == "%globaltimer_lo") {
    Value* now = call_helper(name.starts_with("%clock") ? "softgpu_clock" : "softgpu_globaltimer",
                             b_.getInt64Ty(), {});
    if (name == "%clock" || name == "%globaltimer_lo") return b_.CreateTrunc(now, b_.getInt32Ty());
    return name == "%clock_hi" ? b_.CreateTrunc(b_.CreateLShr(now, 32), b_.getInt32Ty()) : now;
  }
  if (name == "%nwarpid") {
    Value* threads = context_u32(offsetof(BlockContext, ntid));
    for (const std::size_t at : {4u, 8u})
      threads = b_.CreateMul(threads, context_u32(offsetof(BlockContext, ntid) + at));
    return b_.CreateLShr(b_.CreateAdd(threads, b_.getInt32(31)), b_.getInt32(5));
  }
  if (name == "%cluster_ctarank") return b_.getInt32(0);
  if (name == "%cluster_nctarank") return b_.getInt32(1);
  if (name == "%is_explicit_cluster") return b_.getInt1(false);
  if (name == "%envreg1" || name == "%envreg2") {  // where grid-wide barriers count
    Value* at =
        b_.CreatePtrToInt(context_pointer(offsetof(BlockContext, grid_workspace)), b_.getInt64Ty());
    return b_.CreateTrunc(name == "%envreg1" ? b_.CreateLShr(at, 32) : at, b_.getInt32Ty());
  }
  if (name.starts_with("%envreg")) return b_.getInt32(0);
  if (name == "%smid") return b_.getInt32(0);
  if (name == "%nsmid") return b_.getInt32(1);
  unsupported(i, "special register " + name);
  return b_.getInt32(0);
}

}  // namespace sluice::softgpu::lower
