// Graphs: nodes with their work and their dependencies, and what is instantiated from them. Handles
// of nodes are in the registry of State while their graph lives. All structure is guarded by
// graph_mutex(); it is taken after Context::mutex where both are needed.
#pragma once

#include "softgpu/api/work.h"

namespace sluice::softgpu {

struct Node {
  std::uint64_t id = 0;
  std::uint64_t origin = 0;  ///< id of the node that this one was cloned from
  Graph* graph = nullptr;    ///< owns it
  std::shared_ptr<const Work> work;
  std::vector<Node*> before;          ///< what it depends on
  bool is_enabled = true;             ///< in an executable graph
  std::vector<void*> param_pointers;  ///< what GetParams of a kernel node gives out
  [[nodiscard]] CUgraphNodeType type() const { return type_of(*work); }
};

class Graph : public std::enable_shared_from_this<Graph> {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// A child graph in `work` is cloned. `before` are nodes of this graph.
  Node* add(Work work, std::vector<Node*> before);
  void remove(Node* node);
  /// Nodes remember the ones they come from.
  [[nodiscard]] std::shared_ptr<Graph> clone() const;
  /// An order in which the nodes can run; nothing if there is a cycle.
  [[nodiscard]] std::optional<std::vector<Node*>> order() const;
  [[nodiscard]] const std::vector<std::shared_ptr<Node>>& nodes() const { return nodes_; }
  /// In child graphs too.
  [[nodiscard]] Node* find_by_origin(std::uint64_t id) const;
  [[nodiscard]] std::size_t index_of(const Node* node) const;

  bool is_embedded = false;   ///< in a child node: the program may not destroy it
  bool is_capturing = false;  ///< its nodes may not be removed

 private:
  std::vector<std::shared_ptr<Node>> nodes_;
};

/// An instantiated graph.
struct Executable {
  std::shared_ptr<Graph> graph;  ///< its own copy
  std::uint64_t flags = 0;
  OperationPtr last;  ///< of its latest launch: launches of one executable do not overlap
};

std::recursive_mutex& graph_mutex();
CUresult find_graph(CUgraph handle, std::shared_ptr<Graph>* out);
/// The node, kept alive with its graph while the caller holds graph_mutex().
CUresult find_node(CUgraphNode handle, Node** out);
CUresult find_executable(CUgraphExec handle, std::shared_ptr<Executable>* out);
/// The executable's copy of a node of the graph that it was made from.
CUresult find_copy(CUgraphExec handle, CUgraphNode node_handle, Node** out);
inline CUgraphNode handle_of(Node* node) {
  return reinterpret_cast<CUgraphNode>(node);
}

/// Schedules the graph's nodes behind `before`; returns the operation behind all of them. Called
/// with the context's mutex held.
OperationPtr schedule_graph(Graph& graph, const std::shared_ptr<Context>& context,
                            const std::vector<OperationPtr>& before);

}  // namespace sluice::softgpu
