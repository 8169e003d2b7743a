// One request being executed by a worker: what a handler sees. Generated and hand-written handlers
// have the form
//   CUresult handle(Call& call, const wire::X& args, wire::X::Reply& reply)
// in namespace sluice::server. The dispatcher has checked the lengths, made the request's context
// current on the decode thread, and sends the reply (or keeps the first failure of posted records)
// when handle() returns, unless deferred.
#pragma once

#include "driver/driver_table.h"
#include "protocol/wire.h"

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sluice::server {

class Worker;  // server/worker/worker.h: driver table, handle tables, completer, staging, ledger
               // link

using Bytes = std::span<const std::byte>;

/// Confined to the decode thread, but for Deferred.
class Call {
 public:
  Call(Worker& worker, const wire::RecordHeader& header, std::span<const Bytes> blobs)
      : worker_(worker), header_(header), blobs_(blobs) {}

  [[nodiscard]] Worker& worker() const { return worker_; }
  [[nodiscard]] const DriverTable& driver() const;
  [[nodiscard]] const wire::RecordHeader& header() const { return header_; }
  /// Variable part i of the request; valid until handle() returns.
  [[nodiscard]] Bytes blob(std::size_t i) const { return blobs_[i]; }
  /// Variable parts of the reply, in order; kept until the reply is sent.
  void reply_blob(std::vector<std::byte> bytes) { reply_blobs_.push_back(std::move(bytes)); }

  /// The reply is sent later by Worker::answer(seq, ...); handle()'s return value is then ignored
  /// unless it is an error.
  void defer() { is_deferred_ = true; }
  [[nodiscard]] bool is_deferred() const { return is_deferred_; }
  [[nodiscard]] std::vector<std::vector<std::byte>>& reply_blobs() { return reply_blobs_; }

 private:
  Worker& worker_;
  const wire::RecordHeader& header_;
  std::span<const Bytes> blobs_;
  std::vector<std::vector<std::byte>> reply_blobs_;
  bool is_deferred_ = false;
};

/// The call computes on the device, in the stream, in proportion to `bytes`: takes the turn for it
/// (Worker::begin_work()).
void begin_device_work(Call& call, CUstream stream, std::uint64_t bytes);
/// The driver's handle for a wire id: 0 -> null; unknown or other kind -> CUDA_ERROR_INVALID_HANDLE
/// (contexts: INVALID_CONTEXT). Defined for every CUDA handle type (server/worker/handles.h).
template <class Handle>
CUresult native(Call& call, std::uint64_t id, Handle* out);
/// Registers a created object under the id the shim gave it; an id in use or 0 ->
/// CUDA_ERROR_INVALID_VALUE.
template <class Handle>
CUresult bind(Call& call, std::uint64_t id, Handle handle);
/// Forgets the id (after the driver destroyed the object).
template <class Handle>
void unbind(Call& call, std::uint64_t id);

}  // namespace sluice::server

#include "server/worker/handles.h"  // the definitions of the templates above
