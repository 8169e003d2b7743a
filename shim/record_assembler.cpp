#include "shim/record_assembler.h"

#include "common/format.h"

#include <algorithm>
#include <cstring>

namespace sluice::shim {
namespace {

constexpr std::size_t kHeaderBytes = sizeof(wire::RecordHeader);

Result<wire::RecordHeader> read_header(std::span<const std::byte> bytes) {
  wire::RecordHeader header{};
  std::memcpy(&header, bytes.data(), kHeaderBytes);
  if (header.bytes < kHeaderBytes || header.bytes > wire::kRecordBytesMax || header.bytes % 8 != 0)
    return fail(ErrorCode::kProtocol, format("a record of {} bytes cannot be", header.bytes));
  return header;
}

}  // namespace

Status RecordAssembler::on_bytes(std::span<const std::byte> bytes) {
  if (!partial_.empty()) SLUICE_CHECK(take_partial(bytes));
  while (bytes.size() >= kHeaderBytes) {
    SLUICE_TRY(const auto header, read_header(bytes));
    if (header.bytes > bytes.size()) break;
    SLUICE_CHECK(
        handler_.on_record(header, bytes.subspan(kHeaderBytes, header.bytes - kHeaderBytes)));
    bytes = bytes.subspan(header.bytes);
  }
  partial_.insert(partial_.end(), bytes.begin(), bytes.end());
  return {};
}

Status RecordAssembler::take_partial(std::span<const std::byte>& bytes) {
  const auto take = [&](std::size_t wanted_bytes) {
    const std::size_t n = std::min(bytes.size(), wanted_bytes - partial_.size());
    partial_.insert(partial_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    return partial_.size() == wanted_bytes;
  };
  if (partial_.size() < kHeaderBytes && !take(kHeaderBytes)) return {};
  SLUICE_TRY(const auto header, read_header(partial_));
  if (partial_.capacity() < header.bytes) partial_.reserve(header.bytes);
  if (!take(header.bytes)) return {};
  auto status = handler_.on_record(header, std::span<const std::byte>(partial_).subspan(kHeaderBytes));
  partial_.clear();
  return status;
}

}  // namespace sluice::shim
