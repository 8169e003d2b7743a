#include "transport/resume/handover.h"

#include <array>
#include <bit>
#include <cstring>

namespace sluice::transport {
namespace {

using namespace std::chrono_literals;
constexpr auto kLookInterval = 20ms;

static_assert(std::endian::native == std::endian::little, "counts are little-endian");

/// Only counts that do not fit end a stream; whatever a connection does ends that connection.
Error of_this_attempt(Error error) {
  if (error.code == ErrorCode::kProtocol || error.code == ErrorCode::kPermission)
    error.code = ErrorCode::kPeerClosed;
  return error;
}

Status send_count(ByteStream& to, std::uint64_t count) {
  std::array<std::byte, sizeof count> bytes;
  std::memcpy(bytes.data(), &count, sizeof count);
  // The first bytes on a connection always fit.
  const auto sent = to.send_some(bytes);
  if (!sent) return fail(of_this_attempt(sent.error()));
  if (*sent == bytes.size()) return {};
  return fail(ErrorCode::kTimeout, "resuming: the new connection takes nothing");
}

/// `gives_up` is asked only when nothing more is there.
template <class GivesUp>
Result<std::uint64_t> receive_count(ByteStream& from, const GivesUp& gives_up) {
  std::array<std::byte, sizeof(std::uint64_t)> bytes;
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const bool is_last_look = gives_up();
    const auto got = from.receive_some(std::span(bytes).subspan(filled));
    if (!got) return fail(of_this_attempt(got.error()));
    filled += *got;
    if (*got > 0) continue;
    if (is_last_look) return fail(ErrorCode::kTimeout, "resuming: the peer did not go on in time");
    SLUICE_TRY([[maybe_unused]] const bool is_ready,
               from.wait(ByteStream::For::kReceive, Clock::now() + kLookInterval));
  }
  std::uint64_t count = 0;
  std::memcpy(&count, bytes.data(), sizeof count);
  return count;
}

}  // namespace

Status resume_from_client(ResumableStream& stream, std::unique_ptr<ByteStream>& next,
                          Deadline deadline) {
  SLUICE_TRY(const std::uint64_t server_has,
             receive_count(*next, [&] { return Clock::now() >= deadline; }));
  SLUICE_CHECK(send_count(*next, stream.drain()));
  return stream.resume(std::move(next), server_has);
}

Status resume_from_server(ResumableStream& stream, std::unique_ptr<ByteStream> next,
                          const std::atomic<bool>& is_superseded) {
  stream.suspend();
  SLUICE_CHECK(send_count(*next, stream.drain()));
  SLUICE_TRY(const std::uint64_t client_has,
             receive_count(*next, [&] { return is_superseded.load(); }));
  return stream.resume(std::move(next), client_has);
}

}  // namespace sluice::transport
