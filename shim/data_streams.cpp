#include "shim/data_streams.h"

#include "common/format.h"
#include "common/log.h"
#include "protocol/frame_io.h"
#include "shim/expect_frame.h"
#include "shim/prove_key.h"
#include "shim/tls_library.h"
#include "transport/emulate/emulated_stream.h"

#include <cstdlib>
#include <vector>

namespace sluice::shim {
namespace {

constexpr std::chrono::seconds kConnectTimeout{3};
constexpr std::chrono::seconds kTlsTimeout{5};
/// Over a network: each is a connection with a congestion window of its own. On one host they have
/// shown no gain (docs/transports.md).
constexpr std::uint8_t kNetworkLaneCount = 2;

}  // namespace

Result<std::shared_ptr<transport::emulate::Link>> emulated_link() {
  const char* const text = std::getenv("SLUICE_EMULATE");
  if (text == nullptr || *text == '\0') return nullptr;
  const auto spec = transport::emulate::parse_link(text);
  if (!spec) return fail(spec.error().with_context("SLUICE_EMULATE"));
  return std::make_shared<transport::emulate::Link>(*spec);
}

Result<std::uint8_t> DataStreams::lanes_wanted() const {
  const char* const text = std::getenv("SLUICE_LANES");
  const bool is_set = text != nullptr && *text != '\0';
  const bool is_far = session_.link != nullptr || !transport::is_loopback(session_.address);
  std::uint8_t count = is_far ? kNetworkLaneCount : 0;
  if (is_set) {
    if (text[0] < '0' || text[0] > '0' + wire::kLaneCountMax || text[1] != '\0')
      return fail(ErrorCode::kInvalidArgument,
                  format("SLUICE_LANES: \"{}\"; expected 0 to {}", text, wire::kLaneCountMax));
    count = static_cast<std::uint8_t>(text[0] - '0');
  }
  if (count == 0) return count;
  if ((session_.welcome.feature_bits & wire::kFeatureLanes) != 0) return count;
  if (is_set)
    SLUICE_LOG_WARN("session", "SLUICE_LANES={} has no effect: the server is too old for it", text);
  return std::uint8_t{0};
}

Result<Fd> DataStreams::ask(wire::Attach attach) const {
  if (session_.is_encrypted) {
    attach.is_encrypted = 1;
    attach.session_id = session_.welcome.session_id;
  } else {
    attach.session_key = session_.welcome.session_key;
  }
  attach.is_resumable = session_.resumable != nullptr ? 1 : 0;
  SLUICE_TRY(Fd socket, transport::connect_socket(session_.address, kConnectTimeout));
  SLUICE_CHECK(wire::write_frame(socket.get(), attach));
  return socket;
}

Result<Fd> DataStreams::attach(wire::Attach attach) const {
  SLUICE_TRY(Fd socket, ask(attach));
  SLUICE_TRY([[maybe_unused]] const auto attached, expect_frame<wire::Attached>(socket.get()));
  return socket;
}

Result<std::unique_ptr<transport::ByteStream>> DataStreams::make(Fd socket,
                                                                 const wire::Attach& attach) const {
  std::unique_ptr<transport::ByteStream> stream;
  if (session_.is_encrypted) {
    SLUICE_TRY(const transport::tls::Library* library, tls_library());
    const wire::Welcome& welcome = session_.welcome;
    SLUICE_TRY(stream,
               prove_key(*library, std::move(socket),
                         {welcome.session_id, welcome.session_key, attach.lane, attach.lane_count},
                         transport::Clock::now() + kTlsTimeout));
  } else {
    stream = transport::make_socket_stream(std::move(socket));
  }
  if (session_.resumable != nullptr) {
    auto resumable = std::make_unique<transport::ResumableStream>(
        std::move(stream), session_.resumable->survives_reset);
    session_.resumable->data.push_back(resumable.get());
    stream = std::move(resumable);
  }
  if (session_.link == nullptr) return stream;
  return transport::emulate::make_emulated_stream(std::move(stream), session_.link);
}

Result<transport::Lanes> DataStreams::open_lanes(wire::Attach attach) const {
  std::vector<Fd> sockets;
  for (attach.lane = 1; attach.lane <= attach.lane_count; ++attach.lane) {
    SLUICE_TRY(Fd socket, ask(attach));
    sockets.push_back(std::move(socket));
  }
  transport::Lanes lanes;
  attach.lane = 0;
  for (Fd& socket : sockets) {
    ++attach.lane;
    SLUICE_TRY([[maybe_unused]] const auto attached, expect_frame<wire::Attached>(socket.get()));
    SLUICE_TRY(auto lane, make(std::move(socket), attach));
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

}  // namespace sluice::shim
