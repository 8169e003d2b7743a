// What every exported driver function is made of: enter() decides whether the call may proceed,
// post() and call() carry it. Generated stubs and hand-written bodies use nothing else to reach the
// server.
#pragma once

#include "protocol/functions.h"
#include "protocol/opcodes.h"
#include "protocol/wire.h"

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>

namespace sluice::shim {

using Bytes = std::span<const std::byte>;
/// Where a variable part of a reply goes: at most bytes.size() bytes are copied; *actual (if set)
/// gets the sent length.
struct OutBytes {
  std::span<std::byte> bytes;
  std::size_t* actual = nullptr;
};

/// First line of every entry: CUDA_ERROR_NOT_INITIALIZED before cuInit and in a forked child,
/// DEINITIALIZED after teardown, INVALID_CONTEXT without a current context (as fn_needs(fn) says),
/// the sticky or deferred error of earlier posted commands, else CUDA_SUCCESS. Counts the call.
/// Thread-safe.
CUresult enter(wire::Fn fn) noexcept;
/// For functions without support: logs the name once, returns CUDA_ERROR_NOT_SUPPORTED.
CUresult unsupported(wire::Fn fn) noexcept;

namespace detail {
/// How the reader takes a reply apart without knowing its type.
struct ReplyShape {
  std::span<std::byte> fixed;
  std::uint32_t blobs = 0;
  std::uint64_t (*blob_bytes)(const std::byte* fixed, std::size_t i) = nullptr;
};
CUresult post_record(wire::Opcode opcode, Bytes fixed, std::initializer_list<Bytes> blobs) noexcept;
CUresult call_record(wire::Opcode opcode, Bytes fixed, std::initializer_list<Bytes> blobs,
                     const ReplyShape& reply, std::initializer_list<OutBytes> out,
                     std::atomic<std::uint64_t>* seq = nullptr) noexcept;
template <class T>
Bytes as_bytes(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof(T)};
}
template <class Args>
ReplyShape shape_of(typename Args::Reply& reply) {
  return {{reinterpret_cast<std::byte*>(&reply), sizeof(reply)},
          Args::kReplyBlobs,
          [](const std::byte* fixed, std::size_t i) {
            typename Args::Reply copy;
            std::memcpy(&copy, fixed, sizeof copy);
            return std::uint64_t{blob_bytes(copy, i)};
          }};
}
}  // namespace detail

/// The characters of a C string, at most kStringBytesMax of them (a longer name is none that
/// exists).
inline constexpr std::size_t kStringBytesMax = 4096;
inline Bytes string_bytes(const char* text) noexcept {
  return {reinterpret_cast<const std::byte*>(text), strnlen(text, kStringBytesMax)};
}

/// Appends the record to the pipeline and returns; failures come back deferred (D11).
/// SLUICE_STRICT=1 waits instead. The current context of the calling thread goes into the header.
/// `blobs` are copied before the return.
template <class Args>
CUresult post(const Args& args, std::initializer_list<Bytes> blobs = {}) noexcept {
  static_assert(sizeof(Args) % 8 == 0);
  return detail::post_record(Args::kOpcode, detail::as_bytes(args), blobs);
}

/// Appends, flushes and waits for the answer; one round trip. Returns the server's CUresult. `seq`
/// gets the record's number.
template <class Args>
CUresult call(const Args& args, typename Args::Reply& reply,
              std::initializer_list<Bytes> blobs = {}, std::initializer_list<OutBytes> out = {},
              std::atomic<std::uint64_t>* seq = nullptr) noexcept {
  return detail::call_record(Args::kOpcode, detail::as_bytes(args), blobs,
                             detail::shape_of<Args>(reply), out, seq);
}

/// Wire id of an application handle: null -> 0, unknown -> CUDA_ERROR_INVALID_HANDLE (contexts:
/// INVALID_CONTEXT). Streams: 0 and CU_STREAM_LEGACY -> 0 (or the thread's stream under
/// PerThreadDefaultStream), CU_STREAM_PER_THREAD -> the hidden stream of the calling thread
/// (created on first use). Defined for every CUDA handle type in handles.h.
template <class Handle>
CUresult to_wire(Handle handle, std::uint64_t* id) noexcept;
/// A fresh wire id for an object that is about to be created on the server.
std::uint64_t reserve_id() noexcept;
/// Makes the application's handle for a created object / forgets it (its id is never used again).
template <class Handle>
Handle publish(std::uint64_t id) noexcept;
template <class Handle>
void retire(Handle handle) noexcept;

/// While alive, stream 0 means the calling thread's own default stream (the _ptds/_ptsz entry
/// points).
class PerThreadDefaultStream {
 public:
  PerThreadDefaultStream() noexcept;
  ~PerThreadDefaultStream();
  PerThreadDefaultStream(const PerThreadDefaultStream&) = delete;
  PerThreadDefaultStream& operator=(const PerThreadDefaultStream&) = delete;
};

}  // namespace sluice::shim
