#include "shim/encrypted_stream.h"

#include "protocol/frame_io.h"
#include "shim/expect_frame.h"
#include "shim/tls_library.h"

#include <string>

namespace sluice::shim {
namespace {

constexpr std::chrono::seconds kConnectTimeout{3};
constexpr std::chrono::seconds kTlsTimeout{5};

}  // namespace

Result<std::unique_ptr<transport::ByteStream>> open_encrypted_stream(
    const transport::Address& address, const wire::Welcome& welcome, wire::Attach attach) {
  if ((welcome.feature_bits & wire::kFeatureTls) == 0)
    return fail(ErrorCode::kVersion, "the server cannot encrypt data connections; update it");
  SLUICE_TRY(const transport::tls::Library* library, tls_library());
  SLUICE_TRY(Fd socket, transport::connect_socket(address, kConnectTimeout));
  attach.session_key = {};
  attach.is_encrypted = 1;
  attach.session_id = welcome.session_id;
  SLUICE_CHECK(wire::write_frame(socket.get(), attach));
  SLUICE_TRY([[maybe_unused]] const auto attached, expect_frame<wire::Attached>(socket.get()));
  return prove_key(*library, std::move(socket), welcome.session_id, welcome.session_key,
                   transport::Clock::now() + kTlsTimeout);
}

Result<std::unique_ptr<transport::ByteStream>> prove_key(const transport::tls::Library& library,
                                                         Fd socket, std::uint64_t session_id,
                                                         const wire::SessionKey& key,
                                                         transport::Deadline deadline) {
  return library.connect_session(std::move(socket), {std::to_string(session_id), key}, deadline);
}

}  // namespace sluice::shim
