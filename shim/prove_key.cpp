#include "shim/prove_key.h"

#include "protocol/session_secret.h"

namespace sluice::shim {

Result<std::unique_ptr<transport::ByteStream>> prove_key(const transport::tls::Library& library,
                                                         Fd socket, const Proof& proof,
                                                         transport::Deadline deadline) {
  return library.connect_session(
      std::move(socket),
      {wire::secret_identity(proof.session_id, proof.lane, proof.lane_count), proof.key}, deadline);
}

}  // namespace sluice::shim
