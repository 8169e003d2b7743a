// Copies, through pinned staging slots of one record each. The shim's windows bound how many are in
// use.
#include "common/log.h"
#include "server/cuda/deferred.h"

#include <algorithm>
#include <cstring>

namespace sluice::server {
namespace {

void push_credit(Worker& worker, std::uint64_t seq, std::uint64_t h2d_bytes,
                 std::uint64_t d2h_bytes) {
  wire::copy_credit credit{};
  credit.h2d_bytes = h2d_bytes;
  credit.d2h_bytes = d2h_bytes;
  worker.outbox().push(credit, seq, CUDA_SUCCESS);
}

}  // namespace

CUresult handle(Call& call, const wire::copy_h2d& args, wire::copy_h2d::Reply&) {
  Worker& worker = call.worker();
  const std::uint64_t seq = call.header().seq;
  const Bytes data = call.blob(0);
  const auto refuse = [&](CUresult why) {
    push_credit(worker, seq, data.size(), 0);
    return why;
  };
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return refuse(bad);
  if (data.size() > StagingPool::kSlotBytes) return refuse(CUDA_ERROR_INVALID_VALUE);
  std::byte* slot = worker.staging().take();
  if (slot == nullptr) return refuse(CUDA_ERROR_OUT_OF_MEMORY);
  std::memcpy(slot, data.data(), data.size());
  worker.meter().begin(worker.current(), stream);
  worker.note_work(stream);
  const CUresult result = call.driver().cuMemcpyHtoDAsync_v2(args.dst, slot, data.size(), stream);
  if (result != CUDA_SUCCESS) {
    worker.staging().give_back(slot);
    return refuse(result);
  }
  worker.after_stream(stream, Completer::Kind::kData,
                      [&worker, slot, seq, bytes = data.size()](CUresult) {
                        worker.staging().give_back(slot);
                        push_credit(worker, seq, bytes, 0);
                      });
  return CUDA_SUCCESS;
}

namespace {

/// Sends one piece of a D2H copy, or that it failed.
void push_host_data(Worker& worker, std::uint64_t seq, std::uint64_t transfer, std::uint64_t offset,
                    Bytes data, CUresult result) {
  wire::host_data push{};
  push.transfer = transfer;
  push.offset = offset;
  push.data_bytes = data.size();
  worker.outbox().push(push, seq, result, {data});
}

}  // namespace

CUresult handle(Call& call, const wire::copy_d2h& args, wire::copy_d2h::Reply&) {
  Worker& worker = call.worker();
  const std::uint64_t seq = call.header().seq;
  const auto refuse = [&](std::uint64_t from, CUresult why) {
    push_host_data(worker, seq, args.transfer, args.offset + from, {}, why);
    push_credit(worker, seq, 0, args.bytes - from);
    return why;
  };
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return refuse(0, bad);
  if (args.bytes > wire::kCopyWindowBytes) return refuse(0, CUDA_ERROR_INVALID_VALUE);
  worker.meter().begin(worker.current(), stream);
  worker.note_work(stream);
  for (std::uint64_t at = 0; at < args.bytes;) {
    const std::uint64_t bytes = std::min<std::uint64_t>(args.bytes - at, StagingPool::kSlotBytes);
    std::byte* slot = worker.staging().take();
    if (slot == nullptr) return refuse(at, CUDA_ERROR_OUT_OF_MEMORY);
    const CUresult result = call.driver().cuMemcpyDtoHAsync_v2(slot, args.src + at, bytes, stream);
    if (result != CUDA_SUCCESS) {
      worker.staging().give_back(slot);
      return refuse(at, result);
    }
    worker.after_stream(stream, Completer::Kind::kData,
                        [&worker, slot, seq, transfer = args.transfer, offset = args.offset + at,
                         bytes](CUresult done) {
                          push_host_data(worker, seq, transfer, offset,
                                         done == CUDA_SUCCESS ? Bytes{slot, bytes} : Bytes{}, done);
                          push_credit(worker, seq, 0, bytes);
                          worker.staging().give_back(slot);
                        });
    at += bytes;
  }
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::copy_d2d& args, wire::copy_d2d::Reply&) {
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return bad;
  Worker& worker = call.worker();
  worker.meter().begin(worker.current(), stream);
  worker.note_work(stream);
  return call.driver().cuMemcpyDtoDAsync_v2(args.dst, args.src, args.bytes, stream);
}

}  // namespace sluice::server
