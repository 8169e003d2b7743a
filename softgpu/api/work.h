// What a stream or a graph node can be asked to do, as data: streams run it at once, a capture or
// the node API keeps it, where it can be read and changed.
#pragma once

#include "softgpu/api/state.h"

#include <variant>

namespace sluice::softgpu {

class Graph;

struct KernelWork {
  std::shared_ptr<Kernel> kernel;
  CUfunction handle = nullptr;
  LaunchConfig config;
};

/// Rows of a 1-D, 2-D or 3-D copy.
struct Box {
  std::byte* to;
  const std::byte* from;
  std::size_t to_pitch, to_slice, from_pitch, from_slice, width, height, depth;
  void run() const;
};
struct CopyWork {
  CUDA_MEMCPY3D params;
  Box box;
};

struct FillWork {
  CUDA_MEMSET_NODE_PARAMS_v1 params;
};
struct HostWork {
  CUhostFn function = nullptr;
  void* data = nullptr;
};
struct ChildWork {
  std::shared_ptr<Graph> graph;
};
struct EmptyWork {};
struct EventWaitWork {
  std::shared_ptr<Event> event;
};
struct EventRecordWork {
  std::shared_ptr<Event> event;
};

/// In the order of CUgraphNodeType.
using Work = std::variant<KernelWork, CopyWork, FillWork, HostWork, ChildWork, EmptyWork,
                          EventWaitWork, EventRecordWork>;
inline CUgraphNodeType type_of(const Work& work) {
  return static_cast<CUgraphNodeType>(work.index());
}

// The same checks as the calls of the same name make.
CUresult make_kernel_work(const void* function, const LaunchConfig& shape, void** params,
                          void** extra, KernelWork* out);
CUresult make_copy_work(const CUDA_MEMCPY3D* params, CopyWork* out);
CUresult make_fill_work(const CUDA_MEMSET_NODE_PARAMS_v1* params, FillWork* out);

/// Text, heap and cancellation are those of the context in which it runs.
CUresult run(const KernelWork& work, const Context& context);
CUresult run(const CopyWork& work);
CUresult run(const FillWork& work);
CUresult run(const HostWork& work);
inline CUresult run(const ChildWork&) {
  return CUDA_SUCCESS;
}  // these are edges between operations: graph_launch.cpp
inline CUresult run(const EmptyWork&) {
  return CUDA_SUCCESS;
}
inline CUresult run(const EventWaitWork&) {
  return CUDA_SUCCESS;
}
inline CUresult run(const EventRecordWork&) {
  return CUDA_SUCCESS;
}

CUresult run_work(const Work& work, const Context& context);
/// The device whose time it takes; -1: none, it only copies or calls the host.
int computes_on(const Work& work, const Context& context);

/// Puts the work into the stream, or into the graph of the stream's capture.
CUresult submit_work(const std::shared_ptr<Stream>& stream, Work work, OperationPtr* out = nullptr);

}  // namespace sluice::softgpu
