// CUDA 13's form of functions that had another form under the same name before (forms.txt). CUDA
// 12 already had this one as NAME_v2 or NAME_v3; CUDA 13's headers declare it as NAME.
#pragma once

#include "shim/cudart/runtime.h"

extern "C" {
cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                        std::size_t count);
cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t* from,
                                           const cudaGraphNode_t* to,
                                           const cudaGraphEdgeData* edges, std::size_t count);
cudaError_t cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                 cudaGraphEdgeData* edges, std::size_t* count);
cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                            cudaGraphEdgeData* edges, std::size_t* count);
cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t node, cudaGraphNode_t* dependents,
                                              cudaGraphEdgeData* edges, std::size_t* count);
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t* node, cudaGraph_t graph,
                                const cudaGraphNode_t* dependencies, const cudaGraphEdgeData* edges,
                                std::size_t count, cudaGraphNodeParams* params);
cudaError_t cudaMemAdvise_v2(const void* memory, std::size_t bytes, cudaMemoryAdvise advice,
                             cudaMemLocation location);
cudaError_t cudaMemPrefetchAsync_v2(const void* memory, std::size_t bytes, cudaMemLocation location,
                                    unsigned flags, cudaStream_t stream);
cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies,
                                        const cudaGraphEdgeData** edges, std::size_t* count);
cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream,
                                                   cudaGraphNode_t* dependencies,
                                                   const cudaGraphEdgeData* edges,
                                                   std::size_t count, unsigned flags);
cudaError_t cudaSignalExternalSemaphoresAsync_v2(const cudaExternalSemaphore_t* semaphores,
                                                 const cudaExternalSemaphoreSignalParams* params,
                                                 unsigned count, cudaStream_t stream);
cudaError_t cudaWaitExternalSemaphoresAsync_v2(const cudaExternalSemaphore_t* semaphores,
                                               const cudaExternalSemaphoreWaitParams* params,
                                               unsigned count, cudaStream_t stream);
}

namespace sluice::cudart {

/// The stream that code compiled for per-thread default streams means by stream 0.
inline cudaStream_t per_thread(cudaStream_t stream) noexcept {
  return stream != nullptr ? stream : cudaStreamPerThread;
}

}  // namespace sluice::cudart
