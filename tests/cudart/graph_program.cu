// Descriptions that go to the driver and come back: nodes of graphs, textures, arrays.
#include <cstdio>
#include <cstdlib>
#include <cstring>

__global__ void scale(const float*, float*, int) {}
__global__ void other() {}
__device__ unsigned char table[64];

#define CHECK(condition)                                \
  if (!(condition)) {                                   \
    std::printf("line %d: %s\n", __LINE__, #condition); \
    std::exit(1);                                       \
  }

static void host_function(void*) {}

static void kernel_nodes(cudaGraph_t graph) {
  cudaGraphNode_t node;
  void* args[] = {nullptr};
  cudaKernelNodeParams params = {};
  params.func = (void*)scale;
  params.gridDim = dim3(2, 3, 4);
  params.blockDim = dim3(32);
  params.kernelParams = args;
  CHECK(!cudaGraphAddKernelNode(&node, graph, nullptr, 0, &params));
  cudaKernelNodeParams found = {};
  CHECK(!cudaGraphKernelNodeGetParams(node, &found));
  CHECK(found.func == (void*)scale && found.gridDim.y == 3 && found.blockDim.x == 32);
  CHECK(found.kernelParams == args);
  params.func = (void*)other;
  CHECK(!cudaGraphKernelNodeSetParams(node, &params));
  CHECK(!cudaGraphKernelNodeGetParams(node, &found) && found.func == (void*)other);
  params.func = (void*)host_function;
  CHECK(cudaGraphKernelNodeSetParams(node, &params) == cudaErrorInvalidDeviceFunction);
}

static void copy_nodes(cudaGraph_t graph) {
  cudaGraphNode_t node;
  char host[64];
  void* device = nullptr;
  CHECK(!cudaMalloc(&device, 64));
  CHECK(!cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, device, host, 48,
                                  cudaMemcpyHostToDevice));
  cudaMemcpy3DParms found = {};
  CHECK(!cudaGraphMemcpyNodeGetParams(node, &found));
  CHECK(found.kind == cudaMemcpyHostToDevice && found.extent.width == 48);
  CHECK(found.srcPtr.ptr == host && found.dstPtr.ptr == device);
  CHECK(!cudaGraphMemcpyNodeSetParams1D(node, host, device, 16, cudaMemcpyDeviceToHost));
  CHECK(!cudaGraphMemcpyNodeGetParams(node, &found));
  CHECK(found.kind == cudaMemcpyDeviceToHost && found.dstPtr.ptr == host);
  CHECK(!cudaGraphMemcpyNodeSetParams(node, &found));  // what was read can be given back
  CHECK(!cudaGraphAddMemcpyNodeToSymbol(&node, graph, nullptr, 0, table, host, 32, 16,
                                        cudaMemcpyHostToDevice));
  void* start = nullptr;
  CHECK(!cudaGetSymbolAddress(&start, table) && !cudaGraphMemcpyNodeGetParams(node, &found));
  CHECK(found.dstPtr.ptr == (char*)start + 16 && found.extent.width == 32);
  CHECK(cudaGraphMemcpyNodeSetParamsToSymbol(node, table, host, 60, 8, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(!cudaGraphMemcpyNodeSetParamsFromSymbol(node, host, table, 8, 8, cudaMemcpyDeviceToHost));
  CHECK(!cudaGraphMemcpyNodeGetParams(node, &found) && found.srcPtr.ptr == (char*)start + 8);
}

static void other_nodes(cudaGraph_t graph) {
  cudaGraphNode_t node;
  cudaMemsetParams fill = {(void*)0x1000, 64, 7, 1, 16, 2}, fill_found = {};
  CHECK(!cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &fill));
  fill.value = 9;
  CHECK(!cudaGraphMemsetNodeSetParams(node, &fill));
  CHECK(!cudaGraphMemsetNodeGetParams(node, &fill_found) && fill_found.value == 9);
  cudaHostNodeParams host = {host_function, nullptr}, host_found = {};
  CHECK(!cudaGraphAddHostNode(&node, graph, nullptr, 0, &host));
  host.userData = &host;
  CHECK(!cudaGraphHostNodeSetParams(node, &host));
  CHECK(!cudaGraphHostNodeGetParams(node, &host_found) && host_found.userData == &host);
  cudaEvent_t event = nullptr;
  CHECK(!cudaGraphAddEventRecordNode(&node, graph, nullptr, 0, (cudaEvent_t)0x10));
  CHECK(!cudaGraphEventRecordNodeSetEvent(node, (cudaEvent_t)0x20));
  CHECK(!cudaGraphEventRecordNodeGetEvent(node, &event) && event == (cudaEvent_t)0x20);
  cudaMemAllocNodeParams allocation = {};
  allocation.bytesize = 100;
  CHECK(!cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &allocation));
  CHECK(allocation.dptr == (void*)0x7000);
}

static void nodes_by_one_struct(cudaGraph_t graph) {
  cudaGraphNode_t node;
  cudaGraphNodeParams params = {cudaGraphNodeTypeKernel};
  params.kernel.func = (void*)scale;
  params.kernel.gridDim = dim3(5);
  params.kernel.blockDim = dim3(1);
  CHECK(!cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
  cudaKernelNodeParams found = {};
  CHECK(!cudaGraphKernelNodeGetParams(node, &found));
  CHECK(found.func == (void*)scale && found.gridDim.x == 5);
  params = {cudaGraphNodeTypeMemcpy};
  params.memcpy.copyParams.srcPtr = make_cudaPitchedPtr((void*)0x100, 8, 8, 1);
  params.memcpy.copyParams.dstPtr = make_cudaPitchedPtr((void*)0x200, 8, 8, 1);
  params.memcpy.copyParams.extent = make_cudaExtent(8, 1, 1);
  params.memcpy.copyParams.kind = cudaMemcpyDeviceToDevice;
  CHECK(!cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
  cudaMemcpy3DParms copy = {};
  CHECK(!cudaGraphMemcpyNodeGetParams(node, &copy) && copy.dstPtr.ptr == (void*)0x200);
  params = {cudaGraphNodeTypeMemset};
  params.memset.dst = (void*)0x300;
  CHECK(!cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
  params = {cudaGraphNodeTypeMemAlloc};
  params.alloc.bytesize = 8;
  CHECK(!cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
  CHECK(params.alloc.dptr == (void*)0x8000);
  cudaGraphConditionalHandle handle = 0;
  CHECK(!cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  CHECK(handle == 101);
}

static void textures() {
  cudaResourceDesc resource = {}, resource_found = {};
  resource.resType = cudaResourceTypePitch2D;
  resource.res.pitch2D.devPtr = (void*)0x4000;
  resource.res.pitch2D.desc = cudaCreateChannelDesc<uchar4>();
  resource.res.pitch2D.width = 16;
  resource.res.pitch2D.height = 8;
  resource.res.pitch2D.pitchInBytes = 64;
  cudaTextureDesc desc = {}, desc_found = {};
  desc.addressMode[0] = cudaAddressModeClamp;
  desc.filterMode = cudaFilterModeLinear;
  desc.readMode = cudaReadModeNormalizedFloat;
  desc.normalizedCoords = 1;
  desc.seamlessCubemap = 1;
  desc.borderColor[2] = 0.5f;
  cudaResourceViewDesc view = {}, view_found = {};
  view.format = cudaResViewFormatUnsignedChar4;
  view.width = 16;
  cudaTextureObject_t texture = 0;
  CHECK(!cudaCreateTextureObject(&texture, &resource, &desc, &view));
  CHECK(!cudaGetTextureObjectResourceDesc(&resource_found, texture));
  CHECK(!std::memcmp(&resource.res.pitch2D, &resource_found.res.pitch2D,
                     sizeof resource.res.pitch2D));
  CHECK(!cudaGetTextureObjectTextureDesc(&desc_found, texture));
  CHECK(!std::memcmp(&desc, &desc_found, sizeof desc));
  CHECK(!cudaGetTextureObjectResourceViewDesc(&view_found, texture));
  CHECK(view_found.format == view.format && view_found.width == 16);
  CHECK(!cudaDestroyTextureObject(texture));
  resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
  desc.readMode = cudaReadModeElementType;
  CHECK(!cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
  CHECK(!cudaGetTextureObjectTextureDesc(&desc_found, texture));
  CHECK(desc_found.readMode == cudaReadModeElementType);
  resource.res.pitch2D.desc.x = 5;
  CHECK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr) ==
        cudaErrorInvalidChannelDescriptor);
}

// 42 bytes from the fifth of the second row of 16 on: the rest of it, one row, part of one.
static void lines_in_arrays() {
  cudaArray_t array;
  cudaChannelFormatDesc desc = cudaCreateChannelDesc<unsigned char>(), found;
  cudaExtent extent;
  char host[64] = {};
  CHECK(!cudaMallocArray(&array, &desc, 16, 8));
  CHECK(!cudaArrayGetInfo(&found, &extent, nullptr, array));
  CHECK(!std::memcmp(&desc, &found, sizeof desc) && extent.width == 16 && extent.height == 8);
  CHECK(!cudaMemcpyToArray(array, 4, 1, host, 42, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpyFromArray(host, array, 16, 0, 1, cudaMemcpyDeviceToHost) ==
        cudaErrorInvalidValue);
}

int main() {
  cudaGraph_t graph;
  CHECK(!cudaGraphCreate(&graph, 0));
  kernel_nodes(graph);
  copy_nodes(graph);
  other_nodes(graph);
  nodes_by_one_struct(graph);
  textures();
  lines_in_arrays();
  std::printf("OK\n");
  return 0;
}
