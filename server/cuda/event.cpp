// Events: every record is announced to the shim when it has happened.
#include "server/cuda/deferred.h"

namespace sluice::server {

CUresult handle(Call& call, const wire::event_record& args, wire::event_record::Reply&) {
  CUevent event = nullptr;
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.event, &event)) return bad;
  if (const CUresult bad = native(call, args.stream, &stream)) return bad;
  const DriverTable& driver = call.driver();
  const bool has_flags = args.flags != 0 && driver.cuEventRecordWithFlags != nullptr;
  const CUresult result = has_flags ? driver.cuEventRecordWithFlags(event, stream, args.flags)
                                    : driver.cuEventRecord(event, stream);
  if (result != CUDA_SUCCESS) return result;
  Worker& worker = call.worker();
  worker.after_stream(
      stream, Completer::Kind::kAnswer,
      [&worker, seq = call.header().seq, id = args.event, version = args.version](CUresult done) {
        wire::event_done push{};
        push.event = id;
        push.version = version;
        worker.outbox().push(push, seq, done);
      });
  return CUDA_SUCCESS;
}

}  // namespace sluice::server
