// Kernel nodes of graphs.
#include "softgpu/api/graph_node.h"

#include <cstring>

namespace sluice::softgpu {

CUresult make_kernel_node_work(const CUDA_KERNEL_NODE_PARAMS_v2* p, KernelWork* out) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  LaunchConfig shape;
  shape.grid = {p->gridDimX, p->gridDimY, p->gridDimZ};
  shape.block = {p->blockDimX, p->blockDimY, p->blockDimZ};
  shape.dynamic_shared_bytes = p->sharedMemBytes;
  const void* function = p->func != nullptr ? static_cast<const void*>(p->func) : p->kern;
  return make_kernel_work(function, shape, p->kernelParams, p->extra, out);
}

}  // namespace sluice::softgpu

using namespace sluice::softgpu;

namespace {

CUDA_KERNEL_NODE_PARAMS_v2 widened(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
  return {p.func,      p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
          p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,    nullptr,     nullptr};
}

CUresult kernel_params(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v2* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Target target;
  const KernelWork* work = nullptr;
  SOFTGPU_CHECK(read(handle, &target, &work));
  const LaunchConfig& c = work->config;
  auto& pointers = target.node->param_pointers;
  pointers.clear();
  for (const KernelParam& p : work->kernel->info().params)
    pointers.push_back(const_cast<std::byte*>(c.params.data()) + p.offset_bytes);
  *out = {work->handle,    c.grid.x,  c.grid.y,  c.grid.z,
          c.block.x,       c.block.y, c.block.z, c.dynamic_shared_bytes,
          pointers.data(), nullptr,   nullptr,   nullptr};
  return CUDA_SUCCESS;
}

}  // namespace

SOFTGPU_API cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                    size_t count, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  SOFTGPU_MAKE(KernelWork, make_kernel_node_work(params, &work));
  return add_node(out, graph, before, count, std::move(work));
}
SOFTGPU_API cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* out) {
  return kernel_params(node, out);
}
SOFTGPU_API cuGraphKernelNodeSetParams_v2(CUgraphNode node,
                                          const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  SOFTGPU_MAKE(KernelWork, make_kernel_node_work(params, &work));
  return change(nullptr, node, std::move(work));
}
SOFTGPU_API cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                              const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  if (executable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_MAKE(KernelWork, make_kernel_node_work(params, &work));
  return change(executable, node, std::move(work));
}
#undef cuGraphAddKernelNode
SOFTGPU_API cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto wide = widened(*params);
  return cuGraphAddKernelNode_v2(out, graph, before, count, &wide);
}
#undef cuGraphKernelNodeGetParams
SOFTGPU_API cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_KERNEL_NODE_PARAMS_v2 wide{};
  SOFTGPU_CHECK(kernel_params(node, &wide));
  std::memcpy(out, &wide, sizeof *out);  // the old form is the new one's beginning
  return CUDA_SUCCESS;
}
#undef cuGraphKernelNodeSetParams
SOFTGPU_API cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto wide = widened(*params);
  return cuGraphKernelNodeSetParams_v2(node, &wide);
}
#undef cuGraphExecKernelNodeSetParams
SOFTGPU_API cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto wide = widened(*params);
  return cuGraphExecKernelNodeSetParams_v2(executable, node, &wide);
}
