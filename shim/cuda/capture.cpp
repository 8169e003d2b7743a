// Stream capture: judged by the session's Captures, carried out on the worker's stream.
#include "protocol/capture.h"

#include "shim/copies.h"

#include <utility>

using namespace sluice;
using namespace sluice::shim;

namespace sluice::shim {

CUresult capture_copy(CUdeviceptr device, void* host, std::size_t bytes, Stream& stream,
                      GraphNode::Kind kind) {
  Captures& captures = session().captures();
  HostCopy copy;
  if (const CUresult failed =
          session().graphs().find_twin(captures.nodes(stream), host, bytes, &copy))
    return failed;
  captures.set_copy(stream, kind, copy);
  wire::capture_copy args{};
  args.device = device;
  args.twin = copy.twin->id;
  args.offset = copy.offset;
  args.bytes = bytes;
  args.stream = stream.id;
  args.is_download = kind == GraphNode::Kind::kDownload ? 1 : 0;
  return post(args);
}

CUresult capture_function(CUhostFn run, void* data, Stream& stream) {
  if (const CUresult failed = session().host_functions().start_thread()) return failed;
  auto function = std::make_shared<GraphFunction>();
  function->node = reserve_id();
  function->run = run;
  function->data = data;
  session().graphs().add_function(function);
  wire::capture_host_func args{};
  args.stream = stream.id;
  args.node = function->node;
  session().captures().set_function(stream, std::move(function));
  return post(args);
}

void abandon_capture(Stream& stream) {
  if (!stream.is_capturing.load()) return;
  const std::uint64_t origin = session().captures().forget(stream);
  if (origin == 0) return;
  wire::capture_abort args{};
  args.stream = origin;
  post(args);
}

}  // namespace sluice::shim

SLUICE_API cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  if (const CUresult refused = enter(wire::Fn::cuStreamBeginCapture_v2)) return refused;
  if (static_cast<unsigned>(mode) > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  if (const CUresult bad = find_stream(hStream, &stream)) return bad;
  if (const CUresult bad = session().captures().begin(*stream, mode)) return bad;
  wire::cuStreamBeginCapture_v2 args{};
  args.hStream = stream->id;
  wire::cuStreamBeginCapture_v2::Reply reply{};
  const CUresult result = call(args, reply);
  if (result != CUDA_SUCCESS) session().captures().forget(*stream);
  return result;
}

SLUICE_API cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  if (const CUresult refused = enter(wire::Fn::cuStreamEndCapture)) return refused;
  if (phGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *phGraph = nullptr;
  Stream* stream = nullptr;
  if (const CUresult bad = find_stream(hStream, &stream)) return bad;
  std::shared_ptr<Graph> graph;
  const CUresult judged = session().captures().end(*stream, &graph);
  if (judged == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
      judged == CUDA_ERROR_STREAM_CAPTURE_UNJOINED) {
    wire::capture_abort abort{};
    abort.stream = stream->id;
    post(abort);
  }
  if (judged != CUDA_SUCCESS) return judged;
  wire::cuStreamEndCapture args{};
  args.hStream = stream->id;
  args.phGraph = reserve_id();
  wire::cuStreamEndCapture::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  Entry entry;
  entry.id = args.phGraph;
  entry.object = new std::shared_ptr<Graph>(std::move(graph));
  *phGraph = new_handle<CUgraph>(entry);
  return *phGraph != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SLUICE_API cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  if (const CUresult refused = enter_needing(wire::Fn::cuStreamIsCapturing, wire::Needs::kContext))
    return refused;
  if (captureStatus == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  if (const CUresult bad = find_stream(hStream, &stream)) return bad;
  if (const CUresult bad = session().captures().check(*stream);
      bad == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
    return bad;
  std::uint64_t id = 0;
  *captureStatus = session().captures().status(*stream, &id);
  return CUDA_SUCCESS;
}

namespace {

CUresult capture_info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                      bool wants_graph) {
  if (const CUresult refused =
          enter_needing(wire::Fn::cuStreamGetCaptureInfo_v3, wire::Needs::kContext))
    return refused;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  if (const CUresult bad = find_stream(handle, &stream)) return bad;
  std::uint64_t number = 0;
  *status = session().captures().status(*stream, &number);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  if (id != nullptr) *id = number;
  return wants_graph ? unsupported(wire::Fn::cuStreamGetCaptureInfo_v3) : CUDA_SUCCESS;
}

}  // namespace

SLUICE_API cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                     cuuint64_t* id_out, CUgraph* graph_out,
                                     const CUgraphNode** dependencies_out,
                                     const CUgraphEdgeData** edgeData_out,
                                     size_t* numDependencies_out) {
  return capture_info(hStream, captureStatus_out, id_out,
                      graph_out != nullptr || dependencies_out != nullptr ||
                          edgeData_out != nullptr || numDependencies_out != nullptr);
}

SLUICE_API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (const CUresult refused =
          enter_needing(wire::Fn::cuThreadExchangeStreamCaptureMode, wire::Needs::kInit))
    return refused;
  if (mode == nullptr || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, thread_state().capture_mode);
  return CUDA_SUCCESS;
}
