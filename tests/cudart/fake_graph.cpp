// The part of the recording driver that keeps descriptions: graph nodes, arrays, textures. It
// runs none.
#include <cuda.h>

#include <cstring>

#define FAKE extern "C" __attribute__((visibility("default"))) CUresult

namespace {

struct Node {
  CUDA_KERNEL_NODE_PARAMS kernel;
  CUDA_MEMCPY3D copy;
  CUDA_MEMSET_NODE_PARAMS fill;
  CUDA_HOST_NODE_PARAMS host;
  CUevent event;
  CUgraphNodeParams any;
};

Node* of(CUgraphNode node) {
  return reinterpret_cast<Node*>(node);
}
Node* make(CUgraphNode* node) {
  auto* made = new Node{};
  *node = reinterpret_cast<CUgraphNode>(made);
  return made;
}

struct Texture {
  CUDA_RESOURCE_DESC resource;
  CUDA_TEXTURE_DESC texture;
  CUDA_RESOURCE_VIEW_DESC view;
};
Texture* of(CUtexObject texture) {
  return reinterpret_cast<Texture*>(texture);
}

}  // namespace

FAKE cuGraphCreate(CUgraph* graph, unsigned) {
  static int graphs;
  return *graph = reinterpret_cast<CUgraph>(&graphs), CUDA_SUCCESS;
}
FAKE cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph, const CUgraphNode*, std::size_t,
                             const CUDA_KERNEL_NODE_PARAMS* params) {
  return make(node)->kernel = *params, CUDA_SUCCESS;
}
FAKE cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  return *params = of(node)->kernel, CUDA_SUCCESS;
}
FAKE cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  return of(node)->kernel = *params, CUDA_SUCCESS;
}
FAKE cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph, const CUgraphNode*, std::size_t,
                          const CUDA_MEMCPY3D* copy, CUcontext context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return make(node)->copy = *copy, CUDA_SUCCESS;
}
FAKE cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* copy) {
  return *copy = of(node)->copy, CUDA_SUCCESS;
}
FAKE cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* copy) {
  return of(node)->copy = *copy, CUDA_SUCCESS;
}
FAKE cuGraphAddMemsetNode(CUgraphNode* node, CUgraph, const CUgraphNode*, std::size_t,
                          const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return make(node)->fill = *params, CUDA_SUCCESS;
}
FAKE cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params) {
  return *params = of(node)->fill, CUDA_SUCCESS;
}
FAKE cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
  return of(node)->fill = *params, CUDA_SUCCESS;
}
FAKE cuGraphAddHostNode(CUgraphNode* node, CUgraph, const CUgraphNode*, std::size_t,
                        const CUDA_HOST_NODE_PARAMS* params) {
  return make(node)->host = *params, CUDA_SUCCESS;
}
FAKE cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params) {
  return *params = of(node)->host, CUDA_SUCCESS;
}
FAKE cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return of(node)->host = *params, CUDA_SUCCESS;
}
FAKE cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph, const CUgraphNode*, std::size_t,
                               CUevent event) {
  return make(node)->event = event, CUDA_SUCCESS;
}
FAKE cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return *event = of(node)->event, CUDA_SUCCESS;
}
FAKE cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return of(node)->event = event, CUDA_SUCCESS;
}
FAKE cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph, const CUgraphNode*, std::size_t,
                            CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  make(node)->any.alloc.bytesize = params->bytesize;
  return params->dptr = 0x7000, CUDA_SUCCESS;
}
/// Refuses what the real driver would miss: a context where the kind names one, a kernel.
FAKE cuGraphAddNode_v2(CUgraphNode* node, CUgraph, const CUgraphNode*, const CUgraphEdgeData*,
                       std::size_t, CUgraphNodeParams* params) {
  Node* made = make(node);
  made->any = *params;
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      made->kernel.kern = params->kernel.kern;
      made->kernel.gridDimX = params->kernel.gridDimX;
      return params->kernel.kern != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      made->copy = params->memcpy.copyParams;
      return params->memcpy.copyCtx != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return params->memset.ctx != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return params->alloc.dptr = 0x8000, CUDA_SUCCESS;
    default:
      return CUDA_SUCCESS;
  }
}
FAKE cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, CUgraph, CUcontext context,
                                    unsigned value, unsigned) {
  *handle = value + 100;
  return context != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

FAKE cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  return *array = reinterpret_cast<CUarray>(new CUDA_ARRAY3D_DESCRIPTOR(*descriptor)), CUDA_SUCCESS;
}
FAKE cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUarray array) {
  return *descriptor = *reinterpret_cast<CUDA_ARRAY3D_DESCRIPTOR*>(array), CUDA_SUCCESS;
}

FAKE cuTexObjectCreate(CUtexObject* made, const CUDA_RESOURCE_DESC* resource,
                       const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view) {
  auto* object = new Texture{*resource, *texture, {}};
  if (view != nullptr) object->view = *view;
  return *made = reinterpret_cast<CUtexObject>(object), CUDA_SUCCESS;
}
FAKE cuTexObjectDestroy(CUtexObject texture) {
  delete of(texture);
  return CUDA_SUCCESS;
}
FAKE cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* desc, CUtexObject texture) {
  return *desc = of(texture)->resource, CUDA_SUCCESS;
}
FAKE cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* desc, CUtexObject texture) {
  return *desc = of(texture)->texture, CUDA_SUCCESS;
}
FAKE cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* desc, CUtexObject texture) {
  return *desc = of(texture)->view, CUDA_SUCCESS;
}
