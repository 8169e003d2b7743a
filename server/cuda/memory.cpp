// Device memory: the ledger is asked first, and a free takes effect when everything issued before
// it has completed.
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

CUresult allocate(Worker& worker, std::uint32_t device, CUcontext context, std::uint64_t bytes,
                  CUdeviceptr* out) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > (std::uint64_t{1} << 47)) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::uint64_t charge =
      (bytes + kChargeGranularity - 1) / kChargeGranularity * kChargeGranularity;
  if (!worker.ledger().charge(device, charge).is_granted) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = worker.driver().cuMemAlloc_v2(out, bytes);
  if (result != CUDA_SUCCESS) {
    worker.ledger().refund(device, charge);
    return result;
  }
  const std::lock_guard lock(worker.memory_mutex);
  worker.note_allocation(*out, {device, charge, context});
  return CUDA_SUCCESS;
}

}  // namespace

CUresult handle(Call& call, const wire::cuMemAlloc_v2& args, wire::cuMemAlloc_v2::Reply& reply) {
  Worker& worker = call.worker();
  return behind_frees<wire::cuMemAlloc_v2>(
      call, reply,
      [&worker, device = worker.current_device(), context = worker.current(),
       bytes = args.bytesize](CUresult before, wire::cuMemAlloc_v2::Reply& r) {
        if (before != CUDA_SUCCESS) return before;
        CUdeviceptr p = 0;
        const CUresult result = allocate(worker, device, context, bytes, &p);
        r.dptr = p;
        return result;
      });
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
          worker.refund(found->second);
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
