// Stream capture.
#include "shim/cudart/runtime.h"

using namespace sluice::cudart;
using sluice::DriverTable;

SLUICE_CUDART_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                                     cudaStreamCaptureMode mode) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuStreamBeginCapture_v2(stream, static_cast<CUstreamCaptureMode>(mode));
  });
}

SLUICE_CUDART_API cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                                            const cudaGraphNode_t* dependencies,
                                                            const cudaGraphEdgeData* edges,
                                                            std::size_t count,
                                                            cudaStreamCaptureMode mode) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuStreamBeginCaptureToGraph(stream, graph, dependencies,
                                          same_layout<const CUgraphEdgeData*>(edges), count,
                                          static_cast<CUstreamCaptureMode>(mode));
  });
}

SLUICE_CUDART_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return with_context([&](const DriverTable& cu) { return cu.cuStreamEndCapture(stream, graph); });
}

SLUICE_CUDART_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                                    cudaStreamCaptureStatus* status) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuStreamIsCapturing(stream, same_layout<CUstreamCaptureStatus*>(status));
  });
}

SLUICE_CUDART_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuThreadExchangeStreamCaptureMode(same_layout<CUstreamCaptureMode*>(mode));
  });
}

SLUICE_CUDART_API cudaError_t cudaStreamGetCaptureInfo_v3(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
    cudaGraph_t* graph, const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
    std::size_t* count) {
  return with_context([&](const DriverTable& cu) {
    cuuint64_t capture_id = 0;
    CUresult result = cu.cuStreamGetCaptureInfo_v3(
        stream, same_layout<CUstreamCaptureStatus*>(status), &capture_id, graph, dependencies,
        reinterpret_cast<const CUgraphEdgeData**>(edges), count);
    if (id != nullptr) *id = capture_id;
    return result;
  });
}

SLUICE_CUDART_API cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream,
                                                                     cudaGraphNode_t* dependencies,
                                                                     const cudaGraphEdgeData* edges,
                                                                     std::size_t count,
                                                                     unsigned flags) {
  return with_context([&](const DriverTable& cu) {
    return cu.cuStreamUpdateCaptureDependencies_v2(
        stream, dependencies, same_layout<const CUgraphEdgeData*>(edges), count, flags);
  });
}
