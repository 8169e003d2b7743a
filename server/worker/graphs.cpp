#include "server/worker/graphs.h"

#include "common/log.h"
#include "protocol/copy.h"
#include "protocol/graph.h"
#include "protocol/launch.h"
#include "server/worker/host_functions.h"

#include <algorithm>
#include <cstring>

namespace sluice::server {
namespace {

/// Tokens of runs inside graphs are given here, those of the shim's records by the shim.
constexpr std::uint64_t kGraphRun = std::uint64_t{1} << 63;

std::vector<std::uint64_t> numbers(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> out(bytes.size() / sizeof(std::uint64_t));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(std::uint64_t));
  return out;
}

}  // namespace

CUresult Worker::Graphs::create_twin(std::uint64_t id, std::uint64_t bytes) {
  const DriverTable& driver = worker_.driver();
  if (driver.cuMemHostAlloc == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const std::lock_guard lock(mutex_);
  if (id == 0 || bytes == 0 || twins_.contains(id)) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > kTwinBytesMax - twin_bytes_) {
    SLUICE_LOG_WARN("driver", "graphs of a session may copy {} bytes of host memory",
                    kTwinBytesMax);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  void* memory = nullptr;
  if (const CUresult bad = driver.cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE))
    return bad;
  twins_[id] = {static_cast<std::byte*>(memory), bytes, worker_.current()};
  twin_bytes_ += bytes;
  return CUDA_SUCCESS;
}

void Worker::Graphs::free_twin(std::uint64_t id) {
  Twin twin;
  {
    const std::lock_guard lock(mutex_);
    const auto found = twins_.find(id);
    if (found == twins_.end()) return;
    twin = found->second;
    twins_.erase(found);
    twin_bytes_ -= twin.bytes;
  }
  worker_.driver().cuMemFreeHost(twin.memory);
}

CUcontext Worker::Graphs::context_of(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = twins_.find(id);
  return found != twins_.end() ? found->second.context : nullptr;
}

std::byte* Worker::Graphs::find_twin(std::uint64_t id, std::uint64_t offset, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = twins_.find(id);
  if (found == twins_.end() || offset > found->second.bytes || bytes > found->second.bytes - offset)
    return nullptr;
  return found->second.memory + offset;
}

CUresult Worker::Graphs::capture_host_function(CUstream stream, std::uint64_t node) {
  // The driver's nodes, and copies of them in clones, point to it: it lives as long as the session.
  auto& host_node = host_nodes_[node];
  if (host_node != nullptr) return CUDA_ERROR_INVALID_VALUE;
  host_node = std::make_unique<HostNode>(HostNode{&worker_, worker_.current(), node});
  return worker_.driver().cuLaunchHostFunc(stream, &Graphs::run_host_node, host_node.get());
}

CUresult Worker::Graphs::set_plan(std::uint64_t exec, Bytes downloads, Bytes hosts) {
  auto plan = std::make_shared<Plan>();
  const std::vector<std::uint64_t> parts = numbers(downloads);
  for (std::size_t i = 0; i + 2 < parts.size(); i += 3) {
    std::byte* memory = find_twin(parts[i], parts[i + 1], parts[i + 2]);
    if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    plan->downloads.push_back({memory, parts[i + 2]});
  }
  std::vector<bool> is_sent(plan->downloads.size(), false);
  const std::vector<std::uint64_t> words = numbers(hosts);
  for (std::size_t at = 0; at + 1 < words.size();) {
    std::vector<std::size_t>& before = plan->before_host[words[at]];
    const std::uint64_t count = words[at + 1];
    at += 2;
    if (count > words.size() - at) return CUDA_ERROR_INVALID_VALUE;
    for (const std::size_t end = at + count; at < end; ++at) {
      if (words[at] >= plan->downloads.size()) return CUDA_ERROR_INVALID_VALUE;
      before.push_back(words[at]);
      is_sent[words[at]] = true;
    }
  }
  for (std::size_t i = 0; i < is_sent.size(); ++i)
    if (!is_sent[i]) plan->final.push_back(i);
  plans_[exec] = std::move(plan);
  return CUDA_SUCCESS;
}

bool Worker::Graphs::is_idle(CUcontext context) {
  const std::lock_guard lock(mutex_);
  const auto found = running_.find(context);
  return found == running_.end() || found->second.empty();
}

CUresult Worker::Graphs::upload(std::byte* to, Bytes data, bool is_inside) {
  // While nothing of the context's runs, no node reads twins; while a host function runs, the nodes
  // behind it do not.
  if (is_inside || is_idle(worker_.current())) {
    std::memcpy(to, data.data(), data.size());
    return CUDA_SUCCESS;
  }
  if (data.size() > kPendingBytesMax - pending_bytes_) return CUDA_ERROR_OUT_OF_MEMORY;
  pending_bytes_ += data.size();
  pending_.push_back({to, {data.begin(), data.end()}});
  return CUDA_SUCCESS;
}

CUresult Worker::Graphs::record_end(CUcontext context, CUstream stream) {
  const std::lock_guard lock(mutex_);
  CUevent& event = last_end_[context];
  if (event == nullptr)
    if (const CUresult bad = worker_.driver().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING))
      return bad;
  return worker_.driver().cuEventRecord(event, stream);
}

CUresult Worker::Graphs::await_turn(CUstream stream, Launch& launch) {
  const bool has_turn = is_idle(launch.context);
  if (has_turn) {
    for (const Upload& upload : launch.uploads)
      std::memcpy(upload.to, upload.data.data(), upload.data.size());
    launch.uploads.clear();
    return CUDA_SUCCESS;
  }
  const DriverTable& driver = worker_.driver();
  CUevent end = nullptr;
  {
    const std::lock_guard lock(mutex_);
    end = last_end_[launch.context];
  }
  if (end != nullptr)
    if (const CUresult bad = driver.cuStreamWaitEvent(stream, end, 0)) return bad;
  return launch.uploads.empty() ? CUDA_SUCCESS
                                : driver.cuLaunchHostFunc(stream, &Graphs::run_uploads, &launch);
}

CUresult Worker::Graphs::launch(std::uint64_t exec_id, CUgraphExec exec, CUstream stream,
                                const LaunchRef& launch) {
  launch->uploads = std::move(pending_);
  pending_.clear();
  pending_bytes_ = 0;
  const auto plan = plans_.find(exec_id);
  if (plan == plans_.end() || plan->second->downloads.size() != launch->transfers.size())
    return CUDA_ERROR_INVALID_VALUE;
  launch->worker = &worker_;
  launch->context = worker_.current();
  launch->plan = plan->second;
  const DriverTable& driver = worker_.driver();
  if (const CUresult bad = await_turn(stream, *launch)) return bad;
  {
    // Before it can run: its host functions look for it here.
    const std::lock_guard lock(mutex_);
    running_[launch->context].push_back(launch);
  }
  if (const CUresult bad = driver.cuGraphLaunch(exec, stream)) {
    {
      const std::lock_guard lock(mutex_);
      std::erase(running_[launch->context], launch);
    }
    // Its uploads may still be read on their turn.
    worker_.after_stream(stream, Completer::Kind::kAnswer, [launch](CUresult) {});
    return bad;
  }
  // From here on the launch is under way: what still fails makes it end behind the stream's work.
  CUresult result = driver.cuLaunchHostFunc(stream, &Graphs::run_end, launch.get());
  if (result == CUDA_SUCCESS) result = record_end(launch->context, stream);
  if (result != CUDA_SUCCESS)
    SLUICE_LOG_WARN("driver", "the end of a graph launch cannot be watched, result={}",
                    static_cast<int>(result));
  // Host functions do not run after an error.
  worker_.after_stream(stream, Completer::Kind::kAnswer,
                       [this, launch](CUresult done) { finish(launch, done); });
  return CUDA_SUCCESS;
}

void Worker::Graphs::send(const Launch& launch, const std::vector<std::size_t>& downloads) {
  for (const std::size_t i : downloads) {
    const Part& part = launch.plan->downloads[i];
    for (std::uint64_t at = 0; at < part.bytes;) {
      const std::uint64_t bytes = std::min<std::uint64_t>(part.bytes - at, wire::kPayloadBytesMax);
      wire::host_data push{};
      push.transfer = launch.transfers[i];
      push.offset = at;
      push.data_bytes = bytes;
      worker_.outbox().push(push, launch.request, CUDA_SUCCESS, {Bytes{part.memory + at, bytes}});
      at += bytes;
    }
  }
}

void Worker::Graphs::finish(const LaunchRef& launch, CUresult result) {
  {
    const std::lock_guard lock(mutex_);
    if (launch->is_over) return;
    launch->is_over = true;
    std::erase(running_[launch->context], launch);
  }
  if (result == CUDA_SUCCESS) {
    send(*launch, launch->plan->final);
  } else {
    for (const std::uint64_t transfer : launch->transfers) {
      wire::host_data push{};
      push.transfer = transfer;
      worker_.outbox().push(push, launch->request, result);
    }
  }
  wire::graph_done push{};
  push.token = launch->token;
  worker_.outbox().push(push, launch->request, result);
}

void Worker::Graphs::run_uploads(void* data) {
  const auto* launch = static_cast<const Launch*>(data);
  for (const Upload& upload : launch->uploads)
    std::memcpy(upload.to, upload.data.data(), upload.data.size());
}

namespace {

/// Runs `action` on the completer's thread, where pushes keep their order, and waits for
/// host_functions to be told that `token` is over.
template <class Action>
void run_behind_copies(Worker& worker, std::uint64_t token, Action action) {
  {
    const std::lock_guard lock(worker.host_functions->mutex);
    worker.host_functions->running.insert(token);
  }
  worker.completer().post([action = std::move(action)](CUresult) { action(); });
  worker.host_functions->wait(token);
}

}  // namespace

void Worker::Graphs::run_end(void* data) {
  auto* launch = static_cast<Launch*>(data);
  Worker& worker = *launch->worker;
  LaunchRef own;
  std::uint64_t token = 0;
  {
    const std::lock_guard lock(worker.graphs->mutex_);
    for (const LaunchRef& known : worker.graphs->running_[launch->context])
      if (known.get() == launch) own = known;
    token = kGraphRun | ++worker.graphs->last_run_;
  }
  if (own == nullptr) return;
  // The twins may be written again once this returns: the data must have been sent.
  run_behind_copies(worker, token, [&worker, own, token] {
    worker.graphs->finish(own, CUDA_SUCCESS);
    worker.host_functions->finish(token);
  });
}

void Worker::Graphs::run_host_node(void* data) {
  const auto* node = static_cast<const HostNode*>(data);
  Worker& worker = *node->worker;
  LaunchRef launch;
  std::uint64_t token = 0;
  {
    const std::lock_guard lock(worker.graphs->mutex_);
    // Launches of one context take turns: the oldest is the one that runs.
    const auto& running = worker.graphs->running_[node->context];
    if (!running.empty()) launch = running.front();
    token = kGraphRun | ++worker.graphs->last_run_;
  }
  if (launch == nullptr) return;
  run_behind_copies(worker, token, [&worker, launch, node = node->node, token] {
    const auto before = launch->plan->before_host.find(node);
    if (before != launch->plan->before_host.end()) worker.graphs->send(*launch, before->second);
    wire::host_func_run push{};
    push.token = token;
    push.node = node;
    worker.outbox().push(push, launch->request, CUDA_SUCCESS);
  });
}

void Worker::Graphs::forget(CUcontext context) {
  const std::lock_guard lock(mutex_);
  std::erase_if(twins_, [&](const auto& item) {
    if (item.second.context != context) return false;
    twin_bytes_ -= item.second.bytes;
    return true;
  });
  running_.erase(context);
  last_end_.erase(context);
}

}  // namespace sluice::server
