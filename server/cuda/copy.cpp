// Copies, through pinned staging memory: that which the client shares, or our own, of which the
// shim's windows bound how much is in use.
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

namespace {

struct Upload {
  CUdeviceptr destination = 0;
  const std::byte* source = nullptr;  ///< pinned
  std::size_t bytes = 0;
  bool is_ordered = false;
};

/// Issues the copy; `release` runs when the source is no longer needed, if this succeeds.
template <class Release>
CUresult issue(Call& call, const Upload& upload, CUstream stream, Release release) {
  Worker& worker = call.worker();
  const Worker::Copy copy = worker.begin_copy(stream, turns::Way::kUpload, upload.bytes);
  begin_device_work(call, stream, upload.bytes);
  const CUresult result =
      call.driver().cuMemcpyHtoDAsync_v2(upload.destination, upload.source, upload.bytes, stream);
  if (result != CUDA_SUCCESS) {
    worker.end_copy(copy);
    return result;
  }
  if (upload.is_ordered) worker.note_upload(stream);
  worker.after_stream(stream, Completer::Kind::kData,
                      [&worker, request = call.header(), copy, release](CUresult done) {
                        worker.end_copy(copy);
                        release();
                        if (done != CUDA_SUCCESS) worker.report_failure(request, done);
                      });
  return CUDA_SUCCESS;
}

/// The same from memory that is not pinned, which has been read on return; `release` runs when the
/// copy is over, well or not.
template <class Release>
CUresult issue_copied(Call& call, Upload upload, CUstream stream, Release release) {
  Worker& worker = call.worker();
  std::byte* slot = take_staging(worker, upload.bytes);
  if (slot == nullptr) {
    release();
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::memcpy(slot, upload.source, upload.bytes);
  upload.source = slot;
  const auto give_back = [&worker, release, slot, context = worker.current(),
                          bytes = upload.bytes] {
    worker.staging().give_back(context, slot, bytes);
    release();
  };
  const CUresult result = issue(call, upload, stream, give_back);
  if (result != CUDA_SUCCESS) give_back();
  return result;
}

}  // namespace

CUresult handle(Call& call, const wire::copy_h2d& args, wire::copy_h2d::Reply&) {
  Worker& worker = call.worker();
  const Bytes data = call.blob(0);
  const auto credit = [&worker, request = call.header(), bytes = data.size()] {
    push_credit(worker, request, bytes, 0);
  };
  const auto refuse = [&](CUresult why) {
    credit();
    return why;
  };
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return refuse(bad);
  if (data.size() > StagingPool::kBlockBytes) return refuse(CUDA_ERROR_INVALID_VALUE);
  return issue_copied(call, {args.dst, data.data(), data.size(), args.is_ordered != 0}, stream,
                      credit);
}

namespace {

/// The data comes on a lane: straight into the memory that the device reads.
CUresult upload_from_lane(Call& call, const wire::copy_h2d_staged& args) {
  Worker& worker = call.worker();
  if (!worker.lanes().has(args.staging) || args.bytes > StagingPool::kBlockBytes) {
    worker.break_off({ErrorCode::kProtocol, "a copy names a lane or a size that cannot be"});
    return CUDA_ERROR_INVALID_VALUE;
  }
  worker.outbox().flush();  // the client may wait for an answer before it sends on
  CUstream stream = nullptr;
  CUresult why = native(call, args.stream, &stream);
  std::byte* const slot = why == CUDA_SUCCESS ? take_staging(worker, args.bytes) : nullptr;
  if (why == CUDA_SUCCESS && slot == nullptr) why = CUDA_ERROR_OUT_OF_MEMORY;
  const std::uint64_t seq = call.header().seq;
  const Status came = slot != nullptr
                          ? worker.lanes().receive(args.staging, seq, {slot, args.bytes})
                          : worker.lanes().discard(args.staging, seq, args.bytes);
  const auto release = [&worker, request = call.header(), slot, context = worker.current(),
                        bytes = args.bytes] {
    if (slot != nullptr) worker.staging().give_back(context, slot, bytes);
    push_credit(worker, request, bytes, 0);
  };
  if (!came) worker.break_off(came.error());
  if (came) worker.count_staged(args.bytes, 0);
  if (came && why == CUDA_SUCCESS)
    why = issue(call, {args.dst, slot, args.bytes, args.is_ordered != 0}, stream, release);
  if (!came || why != CUDA_SUCCESS) release();
  return why;
}

/// What tells the client that a piece is where it reads it, or why it is not; gives the result on.
auto teller(Call& call, const wire::copy_d2h_staged& args) {
  return [&worker = call.worker(), request = call.header(), args](CUresult done) {
    wire::host_data_staged push{};
    push.transfer = args.transfer;
    push.offset = args.offset;
    push.bytes = done == CUDA_SUCCESS ? args.bytes : 0;
    push.staging = args.staging;
    worker.count_staged(0, push.bytes);
    worker.outbox().push(push, request, done);
    worker.outbox().flush();  // the client copies this piece while the next comes
    return done;
  };
}

struct Download {
  std::byte* destination = nullptr;  ///< pinned
  CUdeviceptr source = 0;
  std::size_t bytes = 0;
};

/// Issues the copy; `then` runs with its outcome, if this succeeds.
template <class Then>
CUresult issue_download(Call& call, const Download& download, CUstream stream, Then then) {
  Worker& worker = call.worker();
  const Worker::Copy copy = worker.begin_copy(stream, turns::Way::kDownload, download.bytes);
  begin_device_work(call, stream, download.bytes);
  const CUresult result = call.driver().cuMemcpyDtoHAsync_v2(download.destination, download.source,
                                                             download.bytes, stream);
  if (result != CUDA_SUCCESS) {
    worker.end_copy(copy);
    return result;
  }
  worker.after_stream(stream, Completer::Kind::kData, [&worker, copy, then](CUresult done) {
    worker.end_copy(copy);
    then(done);
  });
  return CUDA_SUCCESS;
}

/// Gives the lane the data once the device has written it, and the pipeline the news before
/// anything that implies it. The data first: the client waits for it when it comes to the news, and
/// reads nothing else meanwhile.
CUresult download_to_lane(Call& call, const wire::copy_d2h_staged& args) {
  Worker& worker = call.worker();
  const auto tell = teller(call, args);
  if (!worker.lanes().has(args.staging) || args.bytes > StagingPool::kBlockBytes) {
    worker.break_off({ErrorCode::kProtocol, "a copy names a lane or a size that cannot be"});
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return tell(bad);
  std::byte* const slot = take_staging(worker, args.bytes);
  if (slot == nullptr) return tell(CUDA_ERROR_OUT_OF_MEMORY);
  const auto give_back = [&worker, context = worker.current(), slot, bytes = args.bytes] {
    worker.staging().give_back(context, slot, bytes);
  };
  const auto then = [&worker, tell, give_back, slot, args, seq = call.header().seq](CUresult done) {
    if (done == CUDA_SUCCESS)
      worker.lanes().send(args.staging, seq, {slot, args.bytes}, give_back);
    else
      give_back();
    tell(done);
  };
  const CUresult result = issue_download(call, {slot, args.src, args.bytes}, stream, then);
  if (result == CUDA_SUCCESS) return result;
  give_back();
  return tell(result);
}

}  // namespace

CUresult handle(Call& call, const wire::copy_h2d_staged& args, wire::copy_h2d_staged::Reply&) {
  Worker& worker = call.worker();
  if (worker.lanes().exist()) return upload_from_lane(call, args);
  const auto release = [&worker, request = call.header(), staging = args.staging] {
    wire::staging_free push{};
    push.staging = staging;
    worker.outbox().push(push, request, CUDA_SUCCESS);
    worker.outbox().flush();  // the client may wait for nothing but this
  };
  const auto refuse = [&](CUresult why) {
    release();
    return why;
  };
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return refuse(bad);
  const std::byte* const source = worker.shared_staging().piece(args.staging, args.bytes);
  if (source == nullptr || args.bytes > StagingPool::kBlockBytes)
    return refuse(CUDA_ERROR_INVALID_VALUE);
  worker.count_staged(args.bytes, 0);
  const Upload upload{args.dst, source, args.bytes, args.is_ordered != 0};
  if (!worker.shared_staging().is_registered(worker.current()))
    return issue_copied(call, upload, stream, release);
  const CUresult result = issue(call, upload, stream, release);
  return result == CUDA_SUCCESS ? result : refuse(result);
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
  const CUcontext context = worker.current();
  for (std::uint64_t at = 0; at < args.bytes;) {
    const std::uint64_t bytes = std::min<std::uint64_t>(args.bytes - at, StagingPool::kBlockBytes);
    std::byte* slot = take_staging(worker, bytes);
    if (slot == nullptr) return refuse(at, CUDA_ERROR_OUT_OF_MEMORY);
    const auto then = [&worker, context, slot, request, transfer = args.transfer,
                       offset = args.offset + at, bytes](CUresult done) {
      push_host_data(worker, request, transfer, offset,
                     done == CUDA_SUCCESS ? Bytes{slot, bytes} : Bytes{}, done);
      push_credit(worker, request, 0, bytes);
      worker.staging().give_back(context, slot, bytes);
    };
    const CUresult result = issue_download(call, {slot, args.src + at, bytes}, stream, then);
    if (result != CUDA_SUCCESS) {
      worker.staging().give_back(context, slot, bytes);
      return refuse(at, result);
    }
    at += bytes;
  }
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::copy_d2h_staged& args, wire::copy_d2h_staged::Reply&) {
  Worker& worker = call.worker();
  if (worker.lanes().exist()) return download_to_lane(call, args);
  const auto tell = teller(call, args);
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return tell(bad);
  std::byte* const target = worker.shared_staging().piece(args.staging, args.bytes);
  if (target == nullptr || args.bytes > StagingPool::kBlockBytes)
    return tell(CUDA_ERROR_INVALID_VALUE);
  const CUcontext context = worker.current();
  const bool is_direct = worker.shared_staging().is_registered(context);
  std::byte* const into = is_direct ? target : take_staging(worker, args.bytes);
  if (into == nullptr) return tell(CUDA_ERROR_OUT_OF_MEMORY);
  const auto give_back = [&worker, context, is_direct, into, bytes = args.bytes] {
    if (!is_direct) worker.staging().give_back(context, into, bytes);
  };
  const auto then = [tell, give_back, is_direct, into, target, bytes = args.bytes](CUresult done) {
    if (!is_direct && done == CUDA_SUCCESS) std::memcpy(target, into, bytes);
    give_back();
    tell(done);
  };
  const CUresult result = issue_download(call, {into, args.src, args.bytes}, stream, then);
  if (result == CUDA_SUCCESS) return result;
  give_back();
  return tell(result);
}

CUresult handle(Call& call, const wire::copy_d2d& args, wire::copy_d2d::Reply&) {
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.stream, &stream)) return bad;
  begin_device_work(call, stream, args.bytes);
  return call.driver().cuMemcpyDtoDAsync_v2(args.dst, args.src, args.bytes, stream);
}

}  // namespace sluice::server
