// For handlers whose answer waits for the device.
#pragma once

#include "server/handlers.h"
#include "server/worker/worker.h"

#include <cstring>

namespace sluice::server {

/// Runs `work` (which gives the result and fills the reply) when `result` of the preceding work is
/// known; answers a request that waits for its reply, reports a failure of one that does not.
template <class Args, class Work>
Completer::Action answering(Call& call, Work work) {
  Worker& worker = call.worker();
  const wire::RecordHeader header = call.header();
  const bool wants_reply = (header.flags & wire::kFlagWantsReply) != 0;
  if (wants_reply) call.defer();
  return [&worker, header, wants_reply, work = std::move(work)](CUresult before) mutable {
    typename Args::Reply reply{};
    const CUresult result = work(before, reply);
    if (wants_reply)
      worker.answer(header, result, {reinterpret_cast<const std::byte*>(&reply), sizeof reply});
    else if (result != CUDA_SUCCESS)
      worker.report_failure(header, result);
  };
}

}  // namespace sluice::server
