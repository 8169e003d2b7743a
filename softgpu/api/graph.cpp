// Graphs as structure: creating, cloning, asking for nodes and edges. Nodes and their parameters
// are in graph_node.cpp, executable graphs in graph_exec.cpp.
#include "softgpu/api/graph.h"

#include <algorithm>
#include <cstring>

using namespace sluice::softgpu;

namespace {

/// Gives out a list by CUDA's convention: the number alone, or up to *count handles, the rest null.
CUresult give_list(const std::vector<Node*>& list, CUgraphNode* out, std::size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out != nullptr)
    for (std::size_t i = 0; i < *count; ++i)
      out[i] = i < list.size() ? handle_of(list[i]) : nullptr;
  *count = out != nullptr ? std::min(*count, list.size()) : list.size();
  return CUDA_SUCCESS;
}

std::vector<Node*> nodes_after(const Node* node) {
  std::vector<Node*> out;
  for (const auto& other : node->graph->nodes())
    if (std::find(other->before.begin(), other->before.end(), node) != other->before.end())
      out.push_back(other.get());
  return out;
}

void clear(CUgraphEdgeData* edges, std::size_t count) {
  if (edges != nullptr && count > 0) std::memset(edges, 0, count * sizeof *edges);
}

/// Only plain edges exist here: a kernel's programmatic ports are not supported.
bool are_plain(const CUgraphEdgeData* edges, std::size_t count) {
  for (std::size_t i = 0; edges != nullptr && i < count; ++i)
    if (edges[i].from_port != 0 || edges[i].to_port != 0 || edges[i].type != 0) return false;
  return true;
}

CUresult edges_of(CUgraph handle, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
  const std::lock_guard lock(graph_mutex());
  std::shared_ptr<Graph> graph;
  SOFTGPU_CHECK(find_graph(handle, &graph));
  if (count == nullptr || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Node*> begins, ends;
  for (const auto& node : graph->nodes())
    for (Node* b : node->before) {
      begins.push_back(b);
      ends.push_back(node.get());
    }
  std::size_t same = *count;
  SOFTGPU_CHECK(give_list(begins, from, &same));
  return give_list(ends, to, count);
}

/// Pairs of nodes of one graph.
CUresult find_pair(const Graph& graph, CUgraphNode from, CUgraphNode to, Node** begin, Node** end) {
  SOFTGPU_CHECK(find_node(from, begin));
  SOFTGPU_CHECK(find_node(to, end));
  return (*begin)->graph == &graph && (*end)->graph == &graph && *begin != *end
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult change_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                      std::size_t count, bool is_added) {
  const std::lock_guard lock(graph_mutex());
  std::shared_ptr<Graph> graph;
  SOFTGPU_CHECK(find_graph(handle, &graph));
  if (count > 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::pair<Node*, Node*>> pairs(count);
  for (std::size_t i = 0; i < count; ++i) {
    SOFTGPU_CHECK(find_pair(*graph, from[i], to[i], &pairs[i].first, &pairs[i].second));
    const auto& before = pairs[i].second->before;
    const bool exists = std::find(before.begin(), before.end(), pairs[i].first) != before.end();
    if (exists == is_added) return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto& [begin, end] : pairs) {
    if (is_added)
      end->before.push_back(begin);
    else
      std::erase(end->before, begin);
  }
  return CUDA_SUCCESS;
}

}  // namespace

SOFTGPU_API cuGraphCreate(CUgraph* out, unsigned int flags) {
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  SOFTGPU_CHECK(initialised());
  *out = state().graphs.add(std::make_shared<Graph>());
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGraphDestroy(CUgraph handle) {
  std::shared_ptr<Graph> graph;
  SOFTGPU_CHECK(find_graph(handle, &graph));
  const std::lock_guard lock(graph_mutex());
  if (graph->is_embedded || graph->is_capturing) return CUDA_ERROR_INVALID_VALUE;
  state().graphs.remove(handle);
  graph.reset();
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGraphClone(CUgraph* out, CUgraph handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(graph_mutex());
  std::shared_ptr<Graph> graph;
  SOFTGPU_CHECK(find_graph(handle, &graph));
  *out = state().graphs.add(graph->clone());
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph clone) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(graph_mutex());
  Node* node = nullptr;
  SOFTGPU_CHECK(find_node(original, &node));
  std::shared_ptr<Graph> graph;
  SOFTGPU_CHECK(find_graph(clone, &graph));
  Node* found = graph->find_by_origin(node->id);
  *out = handle_of(found);
  return found != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTGPU_API cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  const std::lock_guard lock(graph_mutex());
  std::shared_ptr<Graph> graph;
  SOFTGPU_CHECK(find_graph(handle, &graph));
  std::vector<Node*> all;
  for (const auto& node : graph->nodes()) all.push_back(node.get());
  return give_list(all, nodes, count);
}

SOFTGPU_API cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  const std::lock_guard lock(graph_mutex());
  std::shared_ptr<Graph> graph;
  SOFTGPU_CHECK(find_graph(handle, &graph));
  std::vector<Node*> roots;
  for (const auto& node : graph->nodes())
    if (node->before.empty()) roots.push_back(node.get());
  return give_list(roots, nodes, count);
}

SOFTGPU_API cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                               CUgraphEdgeData* edges, size_t* count) {
  SOFTGPU_CHECK(edges_of(graph, from, to, count));
  if (from != nullptr) clear(edges, *count);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode* out,
                                          CUgraphEdgeData* edges, size_t* count) {
  const std::lock_guard lock(graph_mutex());
  Node* node = nullptr;
  SOFTGPU_CHECK(find_node(handle, &node));
  SOFTGPU_CHECK(give_list(node->before, out, count));
  if (out != nullptr) clear(edges, *count);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode* out,
                                            CUgraphEdgeData* edges, size_t* count) {
  const std::lock_guard lock(graph_mutex());
  Node* node = nullptr;
  SOFTGPU_CHECK(find_node(handle, &node));
  SOFTGPU_CHECK(give_list(nodes_after(node), out, count));
  if (out != nullptr) clear(edges, *count);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData* edges, size_t count) {
  if (!are_plain(edges, count)) return CUDA_ERROR_NOT_SUPPORTED;
  return change_edges(graph, from, to, count, true);
}

SOFTGPU_API cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                         const CUgraphNode* to, const CUgraphEdgeData* edges,
                                         size_t count) {
  if (!are_plain(edges, count)) return CUDA_ERROR_NOT_SUPPORTED;
  return change_edges(graph, from, to, count, false);
}

SOFTGPU_API cuGraphDestroyNode(CUgraphNode handle) {
  const std::lock_guard lock(graph_mutex());
  Node* node = nullptr;
  SOFTGPU_CHECK(find_node(handle, &node));
  if (node->graph->is_embedded || node->graph->is_capturing) return CUDA_ERROR_INVALID_VALUE;
  node->graph->remove(node);
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  if (type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(graph_mutex());
  Node* node = nullptr;
  SOFTGPU_CHECK(find_node(handle, &node));
  *type = node->type();
  return CUDA_SUCCESS;
}

// The forms of CUDA 10 to 12.2, without edge data.
#undef cuGraphGetEdges
SOFTGPU_API cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return edges_of(graph, from, to, count);
}
#undef cuGraphNodeGetDependencies
SOFTGPU_API cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return cuGraphNodeGetDependencies_v2(node, out, nullptr, count);
}
#undef cuGraphNodeGetDependentNodes
SOFTGPU_API cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return cuGraphNodeGetDependentNodes_v2(node, out, nullptr, count);
}
#undef cuGraphAddDependencies
SOFTGPU_API cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   size_t count) {
  return change_edges(graph, from, to, count, true);
}
#undef cuGraphRemoveDependencies
SOFTGPU_API cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                      size_t count) {
  return change_edges(graph, from, to, count, false);
}
