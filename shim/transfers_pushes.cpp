// What the worker says about copies that are under way.
#include "shim/decode.h"
#include "shim/transfers.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sluice::shim {
namespace {

/// Pieces of reads that are on their way from the worker's memory at once.
constexpr std::size_t kFetchesMax = 8;

}  // namespace

Status Transfers::on_host_data(const wire::RecordHeader& header, Bytes body) {
  SLUICE_TRY(const auto push, decode<wire::host_data>(body));
  return take_host_data(push.fixed.transfer, push.fixed.offset, push.blobs[0],
                        static_cast<CUresult>(header.result));
}

Status Transfers::on_host_data_staged(const wire::RecordHeader& header, Bytes body) {
  SLUICE_TRY(const auto push, decode<wire::host_data_staged>(body));
  const auto result = static_cast<CUresult>(header.result);
  if (lanes_.exist()) return take_from_lane(push.fixed, header.seq, result);
  if (push.fixed.bytes > slots_.memory(push.fixed.staging).size())
    return fail(ErrorCode::kProtocol, "host data beyond its staging memory");
  if (remote_ != nullptr && result == CUDA_SUCCESS && push.fixed.bytes > 0)
    return begin_fetch(push.fixed);
  SLUICE_CHECK(finish_fetches());
  return take_staged(push.fixed, result);
}

Status Transfers::take_from_lane(const wire::host_data_staged& push, std::uint64_t seq,
                                 CUresult result) {
  if (push.bytes == 0) return take_host_data(push.transfer, push.offset, {}, result);
  // Asked before any of it is taken: the last byte that was asked for ends the copy.
  if (!may_come(push))
    return fail(ErrorCode::kProtocol, "host data out of order or beyond its transfer");
  std::uint64_t offset = push.offset;
  return lanes_.receive(push.staging, seq, push.bytes, [&](Bytes data) {
    const std::uint64_t at = std::exchange(offset, offset + data.size());
    return take_host_data(push.transfer, at, data, result);
  });
}

bool Transfers::may_come(const wire::host_data_staged& push) const {
  std::lock_guard lock(mutex_);
  const auto at = transfers_.find(push.transfer);
  if (at == transfers_.end() || at->second.is_done) return true;  // take_host_data() knows
  const Transfer& transfer = at->second;
  return push.offset == transfer.received && push.bytes <= transfer.requested - transfer.received;
}

Status Transfers::begin_fetch(const wire::host_data_staged& push) {
  SLUICE_TRY(const auto get, remote_->start_get(push.staging, push.bytes));
  fetches_.push_back({push, get});
  return fetches_.size() > kFetchesMax ? finish_fetch() : Status();
}

Status Transfers::finish_fetch() {
  const Fetch fetch = fetches_.front();
  fetches_.pop_front();
  SLUICE_CHECK(remote_->finish(fetch.get));
  return take_staged(fetch.push, CUDA_SUCCESS);
}

Result<bool> Transfers::finish_fetches() {
  if (fetches_.empty()) return false;
  while (!fetches_.empty()) SLUICE_CHECK(finish_fetch());
  return true;
}

Status Transfers::take_staged(const wire::host_data_staged& push, CUresult result) {
  pipeline_.count_received(push.bytes);
  SLUICE_CHECK(take_host_data(push.transfer, push.offset,
                              slots_.memory(push.staging).first(push.bytes), result));
  is_staging_stuck_ = false;
  return slots_.give_back(push.staging);
}

Status Transfers::on_staging_free(Bytes body) {
  SLUICE_TRY(const auto push, decode<wire::staging_free>(body));
  is_staging_stuck_ = false;
  return slots_.give_back(push.fixed.staging);
}

Status Transfers::take_host_data(std::uint64_t id, std::uint64_t offset, Bytes data,
                                 CUresult result) {
  std::lock_guard lock(mutex_);
  const auto at = transfers_.find(id);
  if (at == transfers_.end() || at->second.is_done) {
    // The rest of a transfer that failed already.
    if (id != 0 && id <= last_id_) return {};
    return fail(ErrorCode::kProtocol, "host data for a transfer that was never asked for");
  }
  Transfer& transfer = at->second;
  if (result != CUDA_SUCCESS) {
    finish(at->first, transfer, result);
    return {};
  }
  if (offset != transfer.received || data.size() > transfer.requested - transfer.received)
    return fail(ErrorCode::kProtocol, "host data out of order or beyond its transfer");
  if (!data.empty())
    std::memcpy(transfer.destination + transfer.received, data.data(), data.size());
  transfer.received += data.size();
  if (transfer.is_windowed) d2h_bytes_.fetch_sub(data.size());
  if (transfer.received == transfer.bytes) finish(at->first, transfer, CUDA_SUCCESS);
  return {};
}

bool Transfers::on_read_failed(std::uint64_t seq, CUresult result) {
  slots_.give_back_of(seq);
  std::lock_guard lock(mutex_);
  for (auto& [id, transfer] : transfers_) {
    if (transfer.is_done) continue;
    for (const SharedSeq& piece : transfer.piece_seqs) {
      if (piece->load() != seq) continue;
      finish(id, transfer, result);
      return true;
    }
  }
  return false;
}

Status Transfers::on_credit(Bytes body) {
  SLUICE_TRY(const auto push, decode<wire::copy_credit>(body));
  const std::uint64_t bytes = push.fixed.h2d_bytes;
  std::size_t now = h2d_bytes_.load();
  do {
    if (bytes > now) return fail(ErrorCode::kProtocol, "credit for more than was sent");
  } while (!h2d_bytes_.compare_exchange_weak(now, now - bytes));
  if (now > kCreditWatchBytes && now - bytes <= kCreditWatchBytes) pipeline_.fulfilled();
  // Device-to-host room comes back with the data itself.
  return {};
}

}  // namespace sluice::shim
