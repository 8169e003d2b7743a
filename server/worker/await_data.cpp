#include "server/worker/await_data.h"

#include "server/worker/candidates.h"
#include "server/worker/data_channel.h"

namespace sluice::server {

Result<std::unique_ptr<transport::Channel>> await_data_channel(int link_fd,
                                                               const link::Start& start,
                                                               Resumption& resumption) {
  Candidates candidates(secret_of(start));
  for (;;) {
    SLUICE_TRY(const bool link_speaks, candidates.wait(link_fd));
    if (auto proved = candidates.advance()) {
      const link::AttachData& attach = proved->attach;
      SLUICE_CHECK(link::send_message(link_fd, link::DataReady{attach.is_resumable}));
      if (attach.is_resumable)
        return resumption.open(std::move(proved->stream), attach.survives_reset);
      return transport::make_stream_channel(std::move(proved->stream));
    }
    if (!link_speaks) continue;
    SLUICE_TRY(link::Received received, link::receive_message(link_fd));
    const auto* attach = std::get_if<link::AttachData>(&received.message);
    if (attach == nullptr || !received.passed.valid())
      return fail(ErrorCode::kProtocol, "expected the data connection");
    if (attach->is_encrypted) {
      SLUICE_CHECK(candidates.add(std::move(received.passed), *attach));
      continue;
    }
    if (attach->is_resumable)
      return resumption.open(transport::make_socket_stream(std::move(received.passed)),
                             attach->survives_reset);
    return open_data_channel(std::move(received.passed), attach->offers_shared_memory,
                             attach->wants_ucx);
  }
}

}  // namespace sluice::server
