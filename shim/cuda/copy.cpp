// Copies between linear memory. Data travels inside the pipeline, in pieces; D2H data comes back as
// pushes.
#include "protocol/copy.h"

#include "shim/copies.h"
#include "shim/host_order.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <optional>

using namespace sluice;
using namespace sluice::shim;

namespace sluice::shim {
namespace {

CUresult post_device_copy(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes,
                          const Stream& stream) {
  wire::copy_d2d args{};
  args.dst = destination;
  args.src = source;
  args.bytes = bytes;
  args.stream = stream.id;
  return post(args);
}

}  // namespace

CUresult host_to_device(CUdeviceptr destination, const void* source, std::size_t bytes,
                        CUstream handle, CopyMode mode) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (source == nullptr || !session().addresses().is_within(destination, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  if (const CUresult bad = use_stream(handle, &stream)) return bad;
  if (stream->is_capturing.load())
    return capture_copy(destination, const_cast<void*>(source), bytes, *stream,
                        GraphNode::Kind::kUpload);
  // What kernels share with the program is read where they left it.
  if (const CUdeviceptr shared = session().shadows().device_address(source))
    return post_device_copy(destination, shared, bytes, *stream);
  // What the stream's host functions write into pinned memory is part of the copy.
  const bool is_pinned = session().addresses().is_pinned(source, bytes);
  if (is_pinned && session().host_functions().pending() != 0) {
    if (const CUresult lost = settle_host_functions(*stream)) return lost;
  }
  count_bytes(bytes);
  return session().transfers().write({.destination = destination,
                                      .source = static_cast<const std::byte*>(source),
                                      .bytes = bytes,
                                      .stream = stream->id,
                                      .context = current_context_id(),
                                      .is_ordered = mode == CopyMode::kSynchronous || !is_pinned});
}

CUresult device_to_host(void* destination, CUdeviceptr source, std::size_t bytes, CUstream handle,
                        CopyMode mode) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (destination == nullptr || !session().addresses().is_within(source, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  if (const CUresult bad = use_stream(handle, &stream)) return bad;
  if (stream->is_capturing.load())
    return capture_copy(source, destination, bytes, *stream, GraphNode::Kind::kDownload);
  if (const CUdeviceptr shared = session().shadows().device_address(destination)) {
    if (const CUresult failed = post_device_copy(shared, source, bytes, *stream)) return failed;
    return mode == CopyMode::kSynchronous ? cuStreamSynchronize(handle) : CUDA_SUCCESS;
  }
  // Into pageable memory a copy is synchronous (API synchronization behavior).
  const bool waits =
      mode == CopyMode::kSynchronous || !session().addresses().is_pinned(destination, bytes);
  std::optional<WaitScope> waiting;
  if (waits) waiting.emplace();
  const CUresult result =
      session().transfers().read({.source = source,
                                  .destination = static_cast<std::byte*>(destination),
                                  .bytes = bytes,
                                  .stream = stream->id,
                                  .context = current_context_id()},
                                 waits);
  waiting.reset();
  count_bytes(bytes);
  if (!waits) return result;
  if (is_sticky(result) && result != kSessionLost)
    session().note_failure(result, current_context_id());
  return or_deferred(result);
}

CUresult device_to_device(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes,
                          CUstream handle) {
  if (bytes == 0) return CUDA_SUCCESS;
  const Addresses& addresses = session().addresses();
  if (!addresses.is_within(destination, bytes) || !addresses.is_within(source, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  if (const CUresult bad = use_stream(handle, &stream)) return bad;
  return post_device_copy(destination, source, bytes, *stream);
}

bool is_device_memory(CUdeviceptr address) {
  const Addresses& addresses = session().addresses();
  if (addresses.device(address) || addresses.is_reserved(address)) return true;
  if (addresses.host(reinterpret_cast<const void*>(address))) return false;
  if (session().shadows().host_address(address) != nullptr) return true;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return ::msync(reinterpret_cast<void*>(address / page * page), page, MS_ASYNC) != 0;
}

CUresult host_to_host(void* destination, const void* source, std::size_t bytes, CUstream handle,
                      CopyMode mode) {
  Stream* stream = nullptr;
  if (const CUresult bad = find_stream(handle, &stream)) return bad;
  if (stream->is_capturing.load()) return unsupported(thread_state().fn);
  // In stream order: what the stream was given before may still write the source.
  if (mode == CopyMode::kAsynchronous) {
    if (const CUresult failed = cuStreamSynchronize(handle)) return failed;
  } else if (const CUresult lost = session().transfers().settle(source, bytes)) {
    return lost;
  }
  std::memmove(destination, source, bytes);
  return CUDA_SUCCESS;
}

}  // namespace sluice::shim

namespace {

/// A copy into memory that the program shares with kernels is seen by it when the call returns.
CUresult shown(CUresult result, CUdeviceptr destination) {
  if (result != CUDA_SUCCESS || session().shadows().host_address(destination) == nullptr)
    return result;
  return cuStreamSynchronize(nullptr);
}

CUresult copy(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes, CUstream handle,
              CopyMode mode) {
  if (bytes == 0) return CUDA_SUCCESS;
  const bool to_device = is_device_memory(destination);
  const bool from_device = is_device_memory(source);
  auto* host_destination = reinterpret_cast<void*>(destination);
  const auto* host_source = reinterpret_cast<const void*>(source);
  if (to_device && from_device) return device_to_device(destination, source, bytes, handle);
  if (to_device) return host_to_device(destination, host_source, bytes, handle, mode);
  if (from_device) return device_to_host(host_destination, source, bytes, handle, mode);
  return host_to_host(host_destination, host_source, bytes, handle, mode);
}

}  // namespace

SLUICE_API cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
  if (const CUresult refused = enter(wire::Fn::cuMemcpyHtoD_v2)) return refused;
  return shown(host_to_device(dstDevice, srcHost, ByteCount, nullptr, CopyMode::kSynchronous),
               dstDevice);
}

SLUICE_API cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                                CUstream hStream) {
  if (const CUresult refused = enter(wire::Fn::cuMemcpyHtoDAsync_v2)) return refused;
  return host_to_device(dstDevice, srcHost, ByteCount, hStream, CopyMode::kAsynchronous);
}

SLUICE_API cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  if (const CUresult refused = enter(wire::Fn::cuMemcpyDtoH_v2)) return refused;
  return device_to_host(dstHost, srcDevice, ByteCount, nullptr, CopyMode::kSynchronous);
}

SLUICE_API cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                CUstream hStream) {
  if (const CUresult refused = enter(wire::Fn::cuMemcpyDtoHAsync_v2)) return refused;
  return device_to_host(dstHost, srcDevice, ByteCount, hStream, CopyMode::kAsynchronous);
}

SLUICE_API cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  if (const CUresult refused = enter(wire::Fn::cuMemcpyDtoD_v2)) return refused;
  return shown(device_to_device(dstDevice, srcDevice, ByteCount, nullptr), dstDevice);
}

SLUICE_API cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                CUstream hStream) {
  if (const CUresult refused = enter(wire::Fn::cuMemcpyDtoDAsync_v2)) return refused;
  return device_to_device(dstDevice, srcDevice, ByteCount, hStream);
}

SLUICE_API cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  if (const CUresult refused = enter(wire::Fn::cuMemcpy)) return refused;
  return shown(copy(dst, src, ByteCount, nullptr, CopyMode::kSynchronous), dst);
}

SLUICE_API cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  if (const CUresult refused = enter(wire::Fn::cuMemcpyAsync)) return refused;
  return copy(dst, src, ByteCount, hStream, CopyMode::kAsynchronous);
}

namespace {

/// Both contexts must be; all devices of a session are one worker's.
CUresult check_peers(CUcontext destination, CUcontext source) {
  for (const CUcontext handle : {destination, source}) {
    const auto* context = object_of<Context>(handle);
    if (context == nullptr || !context->is_alive) return CUDA_ERROR_INVALID_CONTEXT;
  }
  return CUDA_SUCCESS;
}

}  // namespace

SLUICE_API cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                        CUcontext srcContext, size_t ByteCount) {
  if (const CUresult refused = enter(wire::Fn::cuMemcpyPeer)) return refused;
  if (const CUresult bad = check_peers(dstContext, srcContext)) return bad;
  return device_to_device(dstDevice, srcDevice, ByteCount, nullptr);
}

SLUICE_API cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                             CUcontext srcContext, size_t ByteCount, CUstream hStream) {
  if (const CUresult refused = enter(wire::Fn::cuMemcpyPeerAsync)) return refused;
  if (const CUresult bad = check_peers(dstContext, srcContext)) return bad;
  return device_to_device(dstDevice, srcDevice, ByteCount, hStream);
}
