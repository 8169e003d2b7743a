// Device memory: the ledger is asked first, and a free takes effect when everything issued before
// it has completed.
#include "protocol/block_use.h"
#include "server/cuda/deferred.h"

#include <algorithm>

namespace sluice::server {
namespace {

constexpr std::uint64_t kChargeGranularity = 512;

/// At once, or behind the frees that are still on their way: their memory counts as available.
template <class Args, class Work>
CUresult behind_frees(Call& call, typename Args::Reply& reply, Work work) {
  Worker& worker = call.worker();
  if (worker.pending_frees == 0) return work(CUDA_SUCCESS, reply);
  worker.after_context(answering<Args>(call, work));
  return CUDA_SUCCESS;
}

/// `bytes` of the driver, and so many charged as it takes for them.
CUresult allocate(Worker& worker, std::uint64_t bytes, MemoryAccount::Amount amount,
                  CUcontext context, CUdeviceptr* out) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > (std::uint64_t{1} << 47)) return CUDA_ERROR_OUT_OF_MEMORY;
  amount.bytes = (bytes + kChargeGranularity - 1) / kChargeGranularity * kChargeGranularity;
  return worker.memory().draw(amount, [&] {
    const CUresult result = worker.driver().cuMemAlloc_v2(out, bytes);
    if (result == CUDA_SUCCESS) worker.allocations[*out] = {amount, context};
    return result;
  });
}

template <class Args>
CUresult allocate_behind_frees(Call& call, std::uint64_t bytes, MemoryKind kind,
                               typename Args::Reply& reply) {
  Worker& worker = call.worker();
  return behind_frees<Args>(
      call, reply,
      [&worker, amount = MemoryAccount::Amount{worker.current_device(), kind, 0},
       context = worker.current(), bytes](CUresult before, typename Args::Reply& r) {
        if (before != CUDA_SUCCESS) return before;
        CUdeviceptr p = 0;
        const CUresult result = allocate(worker, bytes, amount, context, &p);
        r.dptr = p;
        return result;
      });
}

}  // namespace

CUresult handle(Call& call, const wire::cuMemAlloc_v2& args, wire::cuMemAlloc_v2::Reply& reply) {
  return allocate_behind_frees<wire::cuMemAlloc_v2>(call, args.bytesize, MemoryKind::kData, reply);
}

CUresult handle(Call& call, const wire::memory_block& args, wire::memory_block::Reply& reply) {
  const auto use = static_cast<wire::BlockUse>(args.use);
  if (use != wire::BlockUse::kSlab && use != wire::BlockUse::kPool) return CUDA_ERROR_INVALID_VALUE;
  return allocate_behind_frees<wire::memory_block>(
      call, args.bytes, use == wire::BlockUse::kSlab ? MemoryKind::kSlab : MemoryKind::kPool,
      reply);
}

CUresult handle(Call& call, const wire::cuMemFree_v2& args, wire::cuMemFree_v2::Reply&) {
  Worker& worker = call.worker();
  CUcontext owner = nullptr;
  {
    const std::lock_guard lock(worker.memory_mutex);
    const auto found = worker.allocations.find(args.dptr);
    if (found == worker.allocations.end())
      return args.dptr == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    owner = found->second.context;
  }
  ++worker.pending_frees;
  // Work of any context of the session may use it.
  worker.after_everything(
      owner, answering<wire::cuMemFree_v2>(call, [&worker, p = args.dptr](CUresult, auto&) {
        const std::lock_guard lock(worker.memory_mutex);
        const auto found = worker.allocations.find(p);
        CUresult result = CUDA_ERROR_INVALID_VALUE;  // freed twice
        if (found != worker.allocations.end()) result = worker.driver().cuMemFree_v2(p);
        if (result == CUDA_SUCCESS) {
          worker.memory().give_back(found->second.amount);
          worker.allocations.erase(found);
        }
        --worker.pending_frees;
        return result;
      }));
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::memory_fence&, wire::memory_fence::Reply&) {
  Worker& worker = call.worker();
  worker.after_all_work([&worker, request = call.header()] {
    worker.outbox().push(wire::memory_fence_done{}, request, CUDA_SUCCESS);
  });
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::memory_recalled&, wire::memory_recalled::Reply&) {
  call.worker().ledger().recalled();
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::memory_spare& args, wire::memory_spare::Reply&) {
  call.worker().ledger().note_spare(args.device, args.bytes);
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::cuMemGetInfo_v2&, wire::cuMemGetInfo_v2::Reply& reply) {
  Worker& worker = call.worker();
  return behind_frees<wire::cuMemGetInfo_v2>(
      call, reply,
      [&worker, device = worker.current_device()](CUresult before,
                                                  wire::cuMemGetInfo_v2::Reply& r) {
        if (before != CUDA_SUCCESS) return before;
        std::size_t free_bytes = 0;
        std::size_t total_bytes = 0;
        if (const CUresult bad = worker.driver().cuMemGetInfo_v2(&free_bytes, &total_bytes))
          return bad;
        const LedgerLink::Usage usage = worker.ledger().query(device);
        const std::uint64_t limit = usage.limit_bytes != 0
                                        ? std::min<std::uint64_t>(usage.limit_bytes, total_bytes)
                                        : total_bytes;
        const std::uint64_t left = limit > usage.used_bytes ? limit - usage.used_bytes : 0;
        r.total = limit;
        r.free = std::min<std::uint64_t>(left, free_bytes);
        return CUDA_SUCCESS;
      });
}

}  // namespace sluice::server
