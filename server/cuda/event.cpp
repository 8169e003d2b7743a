// Events: every record is announced to the shim when it has happened.
#include "server/cuda/deferred.h"

namespace sluice::server {

CUresult handle(Call& call, const wire::event_record& args, wire::event_record::Reply&) {
  Worker& worker = call.worker();
  const auto announce = [&worker, request = call.header(), id = args.event,
                         version = args.version](CUresult done) {
    if (version == 0) return done;  // captured: it will not happen
    wire::event_done push{};
    push.event = id;
    push.version = version;
    worker.outbox().push(push, request, done);
    return done;
  };
  CUevent event = nullptr;
  CUstream stream = nullptr;
  // Somebody may wait for a record that cannot be made, too.
  if (const CUresult bad = native(call, args.event, &event)) return announce(bad);
  if (const CUresult bad = native(call, args.stream, &stream)) return announce(bad);
  const DriverTable& driver = call.driver();
  worker.completer().forget_record(event);
  const bool has_flags = args.flags != 0 && driver.cuEventRecordWithFlags != nullptr;
  const CUresult result = has_flags ? driver.cuEventRecordWithFlags(event, stream, args.flags)
                                    : driver.cuEventRecord(event, stream);
  if (result != CUDA_SUCCESS) return announce(result);
  if (args.version == 0) return result;
  worker.after_record(stream, event,
                      [announce](CUresult done) { static_cast<void>(announce(done)); });
  return CUDA_SUCCESS;
}

CUresult handle(Call& call, const wire::cuEventDestroy_v2& args, wire::cuEventDestroy_v2::Reply&) {
  CUevent event = nullptr;
  if (const CUresult bad = native(call, args.hEvent, &event)) return bad;
  call.worker().completer().forget_record(event);
  if (const CUresult failed = call.driver().cuEventDestroy_v2(event)) return failed;
  unbind<CUevent>(call, args.hEvent);
  return CUDA_SUCCESS;
}

}  // namespace sluice::server
