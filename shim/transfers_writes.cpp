// Copies to the device, on whichever way their bytes travel.
#include "shim/transfers.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sluice::shim {
namespace {

/// Pieces of one write that are on their way to the worker's memory while the next is filled.
constexpr std::size_t kPutsMax = 4;

}  // namespace

CUresult Transfers::write(const Write& write) {
  if (unwaited_.load() != 0) {
    if (const CUresult lost = settle(write.source, write.bytes)) return lost;
  }
  std::deque<Piece> puts;
  for (std::size_t offset = 0; offset < write.bytes;) {
    const std::size_t bytes = std::min(write.bytes - offset, wire::kPayloadBytesMax);
    if (const CUresult result = write_piece(write, offset, bytes, puts)) return result;
    offset += bytes;
  }
  return post_put(write, puts, 0);
}

CUresult Transfers::write_piece(const Write& write, std::size_t offset, std::size_t bytes,
                                std::deque<Piece>& puts) {
  const auto seq = std::make_shared<std::atomic<std::uint64_t>>(0);
  if (takes_lane(bytes)) return write_by_lane(write, offset, bytes, seq);
  auto slot = take_slot(bytes, seq);
  if (!slot) {
    // Nobody gives back the slots that wait here.
    if (const CUresult lost = post_put(write, puts, 0)) return lost;
    slot = await_slot(bytes, seq);
  }
  return slot ? write_staged(write, {offset, bytes, *slot, seq}, puts)
              : write_inline(write, offset, bytes);
}

CUresult Transfers::write_inline(const Write& write, std::size_t offset, std::size_t bytes) {
  if (const CUresult lost = acquire(h2d_bytes_, bytes)) return lost;
  wire::copy_h2d args{};
  args.dst = write.destination + offset;
  args.stream = write.stream;
  args.data_bytes = bytes;
  args.is_ordered = write.is_ordered ? 1 : 0;
  return pipeline_.post({.opcode = args.kOpcode,
                         .context = write.context,
                         .fixed = detail::as_bytes(args),
                         .blobs = {Bytes(write.source + offset, bytes)}});
}

CUresult Transfers::write_by_lane(const Write& write, std::size_t offset, std::size_t bytes,
                                  const SharedSeq& seq) {
  if (const CUresult lost = acquire(h2d_bytes_, bytes)) return lost;
  wire::copy_h2d_staged args{};
  args.dst = write.destination + offset;
  args.stream = write.stream;
  args.bytes = bytes;
  args.staging = lanes_.next();
  args.is_ordered = write.is_ordered ? 1 : 0;
  return lanes_.send(args.staging, Bytes(write.source + offset, bytes), seq, [&] {
    return pipeline_.post({.opcode = args.kOpcode,
                           .context = write.context,
                           .fixed = detail::as_bytes(args),
                           .blobs = {},
                           .seq = seq.get(),
                           .staged_bytes = bytes,
                           .is_followed = true});
  });
}

CUresult Transfers::write_staged(const Write& write, Piece piece, std::deque<Piece>& puts) {
  std::memcpy(slots_.memory(piece.slot).data(), write.source + piece.offset, piece.bytes);
  if (remote_ == nullptr) return post_staged(write, piece);
  const auto put = remote_->start_put(piece.slot, piece.bytes);
  if (!put) {
    pipeline_.lose(put.error());
    return kSessionLost;
  }
  piece.put = *put;
  puts.push_back(std::move(piece));
  return post_put(write, puts, kPutsMax);
}

CUresult Transfers::post_put(const Write& write, std::deque<Piece>& puts, std::size_t left_max) {
  for (; puts.size() > left_max; puts.pop_front()) {
    if (const Status done = remote_->finish(puts.front().put); !done) {
      pipeline_.lose(done.error());
      return kSessionLost;
    }
    if (const CUresult lost = post_staged(write, puts.front())) return lost;
  }
  return CUDA_SUCCESS;
}

CUresult Transfers::post_staged(const Write& write, const Piece& piece) {
  wire::copy_h2d_staged args{};
  args.dst = write.destination + piece.offset;
  args.stream = write.stream;
  args.bytes = piece.bytes;
  args.staging = piece.slot;
  args.is_ordered = write.is_ordered ? 1 : 0;
  const CUresult result = pipeline_.post({.opcode = args.kOpcode,
                                          .context = write.context,
                                          .fixed = detail::as_bytes(args),
                                          .blobs = {},
                                          .seq = piece.seq.get(),
                                          .staged_bytes = piece.bytes});
  pipeline_.flush();  // the worker copies this piece while we fill the next
  return result;
}

}  // namespace sluice::shim
