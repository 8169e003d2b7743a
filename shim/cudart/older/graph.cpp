// Graphs and capture as CUDA 11 and 12 declared them: edges without data, one failing node instead
// of a result struct.
#include "shim/cudart/newest.h"

#include <algorithm>
#include <cstring>

using namespace sluice::cudart;

// An edge of these forms is an ordinary one. Where a graph has others, the driver answers queries
// without edge data with cudaErrorLossyQuery.
SLUICE_CUDART_FORM(11, cudaGraphAddDependencies)
(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, std::size_t count) {
  return cudaGraphAddDependencies_v2(graph, from, to, nullptr, count);
}

SLUICE_CUDART_FORM(11, cudaGraphRemoveDependencies)
(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, std::size_t count) {
  return cudaGraphRemoveDependencies_v2(graph, from, to, nullptr, count);
}

SLUICE_CUDART_FORM(11, cudaGraphGetEdges)
(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, std::size_t* count) {
  return cudaGraphGetEdges_v2(graph, from, to, nullptr, count);
}

SLUICE_CUDART_FORM(11, cudaGraphNodeGetDependencies)
(cudaGraphNode_t node, cudaGraphNode_t* dependencies, std::size_t* count) {
  return cudaGraphNodeGetDependencies_v2(node, dependencies, nullptr, count);
}

SLUICE_CUDART_FORM(11, cudaGraphNodeGetDependentNodes)
(cudaGraphNode_t node, cudaGraphNode_t* dependents, std::size_t* count) {
  return cudaGraphNodeGetDependentNodes_v2(node, dependents, nullptr, count);
}

SLUICE_CUDART_FORM(12, cudaGraphAddNode)
(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies, std::size_t count,
 cudaGraphNodeParams* params) {
  return cudaGraphAddNode_v2(node, graph, dependencies, nullptr, count, params);
}

SLUICE_CUDART_FORM(11, cudaStreamGetCaptureInfo)
(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id) {
  return cudaStreamGetCaptureInfo_v3(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
SLUICE_CUDART_FORM(11, cudaStreamGetCaptureInfo_ptsz)
(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id) {
  return sluice_v11_cudaStreamGetCaptureInfo(per_thread(stream), status, id);
}
SLUICE_CUDART_API cudaError_t cudaStreamGetCaptureInfo_v2(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
    cudaGraph_t* graph, const cudaGraphNode_t** dependencies, std::size_t* count) {
  return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, nullptr, count);
}
SLUICE_CUDART_API cudaError_t cudaStreamGetCaptureInfo_v2_ptsz(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
    cudaGraph_t* graph, const cudaGraphNode_t** dependencies, std::size_t* count) {
  return cudaStreamGetCaptureInfo_v2(per_thread(stream), status, id, graph, dependencies, count);
}

SLUICE_CUDART_FORM(11, cudaStreamUpdateCaptureDependencies)
(cudaStream_t stream, cudaGraphNode_t* dependencies, std::size_t count, unsigned flags) {
  return cudaStreamUpdateCaptureDependencies_v2(stream, dependencies, nullptr, count, flags);
}
SLUICE_CUDART_FORM(11, cudaStreamUpdateCaptureDependencies_ptsz)
(cudaStream_t stream, cudaGraphNode_t* dependencies, std::size_t count, unsigned flags) {
  return cudaStreamUpdateCaptureDependencies_v2(per_thread(stream), dependencies, nullptr, count,
                                                flags);
}

// CUDA 11 returned the failing node and a text. The driver of today has no text to give.
SLUICE_CUDART_FORM(11, cudaGraphInstantiate)
(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphNode_t* failing, char* log,
 std::size_t log_bytes) {
  if (failing != nullptr) *failing = nullptr;
  if (log != nullptr && log_bytes > 0) log[0] = '\0';
  cudaGraphInstantiateParams params{};
  const cudaError_t error = cudaGraphInstantiateWithParams(exec, graph, &params);
  if (error != cudaSuccess && failing != nullptr) *failing = params.errNode_out;
  return error;
}

SLUICE_CUDART_FORM(12, cudaGraphExecUpdate)
(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info);

SLUICE_CUDART_FORM(11, cudaGraphExecUpdate)
(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t* failing,
 cudaGraphExecUpdateResult* result) {
  cudaGraphExecUpdateResultInfo info{};
  const cudaError_t error = sluice_v12_cudaGraphExecUpdate(exec, graph, &info);
  if (failing != nullptr) *failing = info.errorNode;
  if (result != nullptr) *result = info.result;
  return error;
}
