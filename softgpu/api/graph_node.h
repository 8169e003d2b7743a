// What the calls for each kind of node share.
#pragma once

#include "softgpu/api/graph.h"

namespace sluice::softgpu {

CUresult add_node(CUgraphNode* out, CUgraph handle, const CUgraphNode* before, std::size_t count,
                  Work work);
CUresult make_kernel_node_work(const CUDA_KERNEL_NODE_PARAMS_v2* params, KernelWork* out);

/// What the node of a graph does, or (with an executable) what the executable's copy of it does.
struct Target {
  std::unique_lock<std::recursive_mutex> lock{graph_mutex()};
  Node* node = nullptr;
};

CUresult find_target(CUgraphExec executable, CUgraphNode handle, CUgraphNodeType type, Target* out);

template <class W>
CUresult change(CUgraphExec executable, CUgraphNode handle, W work) {
  const CUgraphNodeType type = type_of(Work(work));
  Target target;
  SOFTGPU_CHECK(find_target(executable, handle, type, &target));
  target.node->work = std::make_shared<const Work>(std::move(work));
  return CUDA_SUCCESS;
}

template <class W>
CUresult read(CUgraphNode handle, Target* target, const W** out) {
  SOFTGPU_CHECK(find_target(nullptr, handle, type_of(Work(W{})), target));
  *out = std::get_if<W>(target->node->work.get());
  return CUDA_SUCCESS;
}

}  // namespace sluice::softgpu

#define SOFTGPU_MAKE(Type, ...) \
  Type work;                    \
  SOFTGPU_CHECK(__VA_ARGS__)
