// Executable graphs and their launches. What a graph does with the client's memory and functions
// goes with it as a plan (server/worker/graphs.h).
#include "server/cuda/deferred.h"
#include "server/worker/graphs.h"

#include <cstring>

namespace sluice::server {
namespace {

/// A graph costs what it cost the last times, as one command.
std::uint64_t cost_key_of(std::uint64_t exec) {
  return scheduler::CostModel::key_of(exec, 0, 0, 0);
}

MemoryAccount::Key key_of(CUgraphExec exec) {
  return {HandleTable::kind<CUgraphExec>(), exec};
}

}  // namespace

CUresult handle(Call& call, const wire::graph_clone& args, wire::graph_clone::Reply&) {
  const DriverTable& driver = call.driver();
  if (driver.cuGraphClone == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUgraph graph = nullptr;
  if (const CUresult bad = native(call, args.graph, &graph)) return bad;
  if (graph == nullptr || !can_bind<CUgraph>(call, args.clone)) return CUDA_ERROR_INVALID_VALUE;
  CUgraph clone = nullptr;
  if (const CUresult bad = driver.cuGraphClone(&clone, graph)) return bad;
  return bind(call, args.clone, clone);
}

CUresult handle(Call& call, const wire::cuGraphInstantiateWithFlags& args,
                wire::cuGraphInstantiateWithFlags::Reply&) {
  const DriverTable& driver = call.driver();
  if (driver.cuGraphInstantiateWithFlags == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUgraph graph = nullptr;
  if (const CUresult bad = native(call, args.hGraph, &graph)) return bad;
  if (!can_bind<CUgraphExec>(call, args.phGraphExec)) return CUDA_ERROR_INVALID_VALUE;
  Worker& worker = call.worker();
  CUgraphExec exec = nullptr;
  MemoryAccount::Amount amount{worker.current_device(), MemoryKind::kGraph, 0};
  if (const CUresult bad = worker.memory().draw_measured(
          &amount, [&] { return driver.cuGraphInstantiateWithFlags(&exec, graph, args.flags); },
          [&] { driver.cuGraphExecDestroy(exec); }))
    return bad;
  worker.memory().note_made(key_of(exec), amount, worker.current());
  return bind(call, args.phGraphExec, exec);
}

CUresult handle(Call& call, const wire::graph_plan& args, wire::graph_plan::Reply&) {
  return call.worker().graphs->set_plan(args.exec, call.blob(0), call.blob(1));
}

CUresult handle(Call& call, const wire::graph_upload& args, wire::graph_upload::Reply&) {
  Worker::Graphs& graphs = *call.worker().graphs;
  const Bytes data = call.blob(0);
  std::byte* to = graphs.find_twin(args.twin, args.offset, data.size());
  return to != nullptr ? graphs.upload(to, data, args.run != 0) : CUDA_ERROR_INVALID_VALUE;
}

CUresult handle(Call& call, const wire::graph_launch& args, wire::graph_launch::Reply&) {
  CUgraphExec exec = nullptr;
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.exec, &exec)) return bad;
  if (const CUresult bad = native(call, args.stream, &stream)) return bad;
  auto launch = std::make_shared<Worker::Graphs::Launch>();
  launch->request = call.header();
  launch->token = args.token;
  const Bytes transfers = call.blob(0);
  launch->transfers.resize(transfers.size() / sizeof(std::uint64_t));
  if (!launch->transfers.empty())
    std::memcpy(launch->transfers.data(), transfers.data(),
                launch->transfers.size() * sizeof(std::uint64_t));
  call.worker().begin_work(stream, cost_key_of(args.exec));
  return call.worker().graphs->launch(args.exec, exec, stream, launch);
}

CUresult handle(Call& call, const wire::cuGraphLaunch& args, wire::cuGraphLaunch::Reply&) {
  CUgraphExec exec = nullptr;
  CUstream stream = nullptr;
  if (const CUresult bad = native(call, args.hGraphExec, &exec)) return bad;
  if (const CUresult bad = native(call, args.hStream, &stream)) return bad;
  if (call.driver().cuGraphLaunch == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  call.worker().begin_work(stream, cost_key_of(args.hGraphExec));
  return call.driver().cuGraphLaunch(exec, stream);
}

CUresult handle(Call& call, const wire::cuGraphExecDestroy& args,
                wire::cuGraphExecDestroy::Reply&) {
  CUgraphExec exec = nullptr;
  if (const CUresult bad = native(call, args.hGraphExec, &exec)) return bad;
  if (exec == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  unbind<CUgraphExec>(call, args.hGraphExec);
  call.worker().graphs->forget_exec(args.hGraphExec);
  return call.worker().memory().release_made(
      key_of(exec), [&] { return call.driver().cuGraphExecDestroy(exec); });
}

}  // namespace sluice::server
