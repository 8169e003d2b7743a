// The structure of graphs.
#include "softgpu/api/graph.h"

#include <algorithm>

namespace sluice::softgpu {

std::recursive_mutex& graph_mutex() {
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

namespace {
/// The handles that lead to the node and into it.
void forget_handles(const Node& node) {
  if (const auto* child = std::get_if<ChildWork>(node.work.get()))
    state().graphs.remove(child->graph.get());
  state().nodes.remove(&node);
}
}  // namespace

Graph::Graph() = default;

Graph::~Graph() {
  for (const auto& node : nodes_) forget_handles(*node);
}

Node* Graph::add(Work work, std::vector<Node*> before) {
  const std::lock_guard lock(graph_mutex());
  if (auto* child = std::get_if<ChildWork>(&work)) {
    child->graph = child->graph->clone();
    child->graph->is_embedded = true;
  }
  auto node = std::make_shared<Node>();
  node->id = state().next_id++;
  node->graph = this;
  node->work = std::make_shared<const Work>(std::move(work));
  node->before = std::move(before);
  nodes_.push_back(node);
  state().nodes.add(node);
  return node.get();
}

void Graph::remove(Node* node) {
  const std::lock_guard lock(graph_mutex());
  for (const auto& other : nodes_) std::erase(other->before, node);
  const auto found =
      std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& n) { return n.get() == node; });
  if (found == nodes_.end()) return;
  forget_handles(*node);
  nodes_.erase(found);
}

std::shared_ptr<Graph> Graph::clone() const {
  const std::lock_guard lock(graph_mutex());
  auto out = std::make_shared<Graph>();
  std::map<const Node*, Node*> copies;
  for (const auto& node : nodes_) {
    Node* copy = out->add(*node->work, {});
    copy->origin = node->id;
    copy->is_enabled = node->is_enabled;
    copies[node.get()] = copy;
  }
  for (const auto& node : nodes_)
    for (const Node* b : node->before) copies[node.get()]->before.push_back(copies[b]);
  return out;
}

std::optional<std::vector<Node*>> Graph::order() const {
  std::map<const Node*, std::size_t> missing;
  std::map<const Node*, std::vector<Node*>> after;
  std::vector<Node*> out;
  for (const auto& node : nodes_) {
    missing[node.get()] = node->before.size();
    for (const Node* b : node->before) after[b].push_back(node.get());
    if (node->before.empty()) out.push_back(node.get());
  }
  for (std::size_t i = 0; i < out.size(); ++i)
    for (Node* next : after[out[i]])
      if (--missing[next] == 0) out.push_back(next);
  if (out.size() != nodes_.size()) return std::nullopt;
  return out;
}

Node* Graph::find_by_origin(std::uint64_t id) const {
  for (const auto& node : nodes_)
    if (node->origin == id) return node.get();
  for (const auto& node : nodes_)
    if (const auto* child = std::get_if<ChildWork>(node->work.get()))
      if (Node* found = child->graph->find_by_origin(id)) return found;
  return nullptr;
}

std::size_t Graph::index_of(const Node* node) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].get() == node) return i;
  return nodes_.size();
}

CUresult find_graph(CUgraph handle, std::shared_ptr<Graph>* out) {
  SOFTGPU_CHECK(initialised());
  *out = state().graphs.find(handle);
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult find_node(CUgraphNode handle, Node** out) {
  SOFTGPU_CHECK(initialised());
  const auto node = state().nodes.find(handle);
  *out = node.get();
  return node != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace sluice::softgpu
