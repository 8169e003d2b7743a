// Copies, through pinned staging memory. The shim's windows bound how many are in
// use.
#include "common/log.h"
#include "server/cuda/deferred.h"

#include <algorithm>
#include <cstring>

namespace sluice::server {
namespace {

void push_credit(Worker& worker, const wire::RecordHeader& request, std::uint64_t h2d_bytes,
                 std::uint64_t d2h_bytes) {
  wire::copy_credit credit{};
  credit.h2d_bytes = h2d_bytes;
  credit.d2h_bytes = d2h_bytes;
  worker.outbox().push(credit, request, CUDA_SUCCESS);
}

/// Memory for a piece of a copy, or null with one line in the log.
std::byte* take_staging(Worker& worker, std::size_t bytes) {
  std::byte* piece = worker.staging().take(worker.current(), bytes);
  if (piece == nullptr)
    SLUICE_LOG_WARN("driver", "no staging memory for a copy of {} bytes", bytes);
  return piece;
}

}  // namespace

CUresult handle(Call& call, const wire::copy_h2d& args, wire::copy_h2d::Reply&) {
  Worker& worker = call.worker();
  const wire::RecordHeader request = call.header();
  const Bytes data = call.blob(0);
  const auto refuse = [&](CUresult why) {
    push_credit(worker, request, data.size(), 0);
    return why;
  };
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return refuse(bad);
  if (data.size() > StagingPool::kBlockBytes) return refuse(CUDA_ERROR_INVALID_VALUE);
  std::byte* slot = take_staging(worker, data.size());
  if (slot == nullptr) return refuse(CUDA_ERROR_OUT_OF_MEMORY);
  std::memcpy(slot, data.data(), data.size());
  worker.begin_work(stream);
  const CUcontext context = worker.current();
  const CUresult result = call.driver().cuMemcpyHtoDAsync_v2(args.dst, slot, data.size(), stream);
  if (result != CUDA_SUCCESS) {
    worker.staging().give_back(context, slot, data.size());
    return refuse(result);
  }
  if (args.is_ordered != 0) worker.note_upload(stream);
  worker.after_stream(stream, Completer::Kind::kData,
                      [&worker, context, slot, request, bytes = data.size()](CUresult done) {
                        worker.staging().give_back(context, slot, bytes);
                        push_credit(worker, request, bytes, 0);
                        if (done != CUDA_SUCCESS) worker.report_failure(request, done);
                      });
  return CUDA_SUCCESS;
}

namespace {

/// Sends one piece of a D2H copy, or that it failed.
void push_host_data(Worker& worker, const wire::RecordHeader& request, std::uint64_t transfer,
                    std::uint64_t offset, Bytes data, CUresult result) {
  wire::host_data push{};
  push.transfer = transfer;
  push.offset = offset;
  push.data_bytes = data.size();
  worker.outbox().push(push, request, result, {data});
}

}  // namespace

CUresult handle(Call& call, const wire::copy_d2h& args, wire::copy_d2h::Reply&) {
  Worker& worker = call.worker();
  const wire::RecordHeader request = call.header();
  const auto refuse = [&](std::uint64_t from, CUresult why) {
    push_host_data(worker, request, args.transfer, args.offset + from, {}, why);
    push_credit(worker, request, 0, args.bytes - from);
    return why;
  };
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return refuse(0, bad);
  if (args.bytes > wire::kCopyWindowBytes) return refuse(0, CUDA_ERROR_INVALID_VALUE);
  worker.begin_work(stream);
  const CUcontext context = worker.current();
  for (std::uint64_t at = 0; at < args.bytes;) {
    const std::uint64_t bytes = std::min<std::uint64_t>(args.bytes - at, StagingPool::kBlockBytes);
    std::byte* slot = take_staging(worker, bytes);
    if (slot == nullptr) return refuse(at, CUDA_ERROR_OUT_OF_MEMORY);
    const CUresult result = call.driver().cuMemcpyDtoHAsync_v2(slot, args.src + at, bytes, stream);
    if (result != CUDA_SUCCESS) {
      worker.staging().give_back(context, slot, bytes);
      return refuse(at, result);
    }
    worker.after_stream(stream, Completer::Kind::kData,
                        [&worker, context, slot, request, transfer = args.transfer,
                         offset = args.offset + at, bytes](CUresult done) {
                          push_host_data(worker, request, transfer, offset,
                                         done == CUDA_SUCCESS ? Bytes{slot, bytes} : Bytes{}, done);
                          push_credit(worker, request, 0, bytes);
                          worker.staging().give_back(context, slot, bytes);
                        });
    at += bytes;
  }
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::copy_d2d& args, wire::copy_d2d::Reply&) {
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return bad;
  Worker& worker = call.worker();
  worker.begin_work(stream);
  return call.driver().cuMemcpyDtoDAsync_v2(args.dst, args.src, args.bytes, stream);
}

}  // namespace sluice::server
