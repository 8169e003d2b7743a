#include "shim/graphs.h"

#include "common/log.h"
#include "protocol/capture.h"
#include "protocol/graph.h"
#include "shim/decode.h"
#include "shim/host_order.h"
#include "shim/process.h"

#include <algorithm>

namespace sluice::shim {
namespace {

using NodeKind = GraphNode::Kind;

/// Nodes that come before `node`.
std::vector<bool> ancestors(const std::vector<GraphNode>& nodes, std::uint32_t node) {
  std::vector<bool> reached(nodes.size(), false);
  std::vector<std::uint32_t> next = nodes[node].after;
  while (!next.empty()) {
    const std::uint32_t at = next.back();
    next.pop_back();
    if (reached[at]) continue;
    reached[at] = true;
    next.insert(next.end(), nodes[at].after.begin(), nodes[at].after.end());
  }
  return reached;
}

bool is_same(const HostCopy& a, const HostCopy& b) {
  return a.twin == b.twin && a.offset == b.offset && a.bytes == b.bytes;
}

void add_once(std::vector<HostCopy>& copies, const HostCopy& copy) {
  for (const HostCopy& known : copies)
    if (is_same(known, copy)) return;
  copies.push_back(copy);
}

Bytes bytes_of(const std::vector<std::uint64_t>& words) {
  return std::as_bytes(std::span(words));
}

}  // namespace

Twin::~Twin() {
  if (id != 0 && process().phase.load() == Phase::kReady) session().graphs().drop_twin(id, context);
}

void Graphs::drop_twin(std::uint64_t id, std::uint32_t context) {
  std::lock_guard lock(dropped_mutex_);
  dropped_.emplace_back(id, context);
}

void Graphs::free_dropped() {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> dropped;
  {
    std::lock_guard lock(dropped_mutex_);
    dropped.swap(dropped_);
  }
  for (const auto& [id, context] : dropped) {
    wire::twin_free args{};
    args.twin = id;
    pipeline_.post(
        {.opcode = args.kOpcode, .context = context, .fixed = detail::as_bytes(args), .blobs = {}});
  }
}

CUresult Graphs::find_twin(const std::vector<GraphNode>& nodes, void* host, std::size_t bytes,
                           HostCopy* copy) {
  auto* const start = static_cast<std::byte*>(host);
  for (const GraphNode& node : nodes) {
    const Twin* twin = node.copy.twin.get();
    if (twin == nullptr || start >= twin->host + twin->bytes || twin->host >= start + bytes)
      continue;
    if (start < twin->host || start + bytes > twin->host + twin->bytes) {
      SLUICE_LOG_WARN(
          "shim", "A graph copies stretches of host memory that overlap in part: not supported");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    *copy = {node.copy.twin, static_cast<std::size_t>(start - twin->host), bytes};
    return CUDA_SUCCESS;
  }
  auto twin = std::make_shared<Twin>();
  wire::twin_create args{};
  args.twin = reserve_id();
  args.bytes = bytes;
  wire::twin_create::Reply reply{};
  if (const CUresult failed = call(args, reply)) return failed;
  twin->id = args.twin;
  twin->host = start;
  twin->bytes = bytes;
  twin->context = current_context_id();
  *copy = {std::move(twin), 0, bytes};
  return CUDA_SUCCESS;
}

void Graphs::add_function(const std::shared_ptr<GraphFunction>& function) {
  std::lock_guard lock(mutex_);
  by_node_[function->node] = function;
}

std::shared_ptr<GraphFunction> Graphs::function(std::uint64_t node) {
  std::lock_guard lock(mutex_);
  const auto at = by_node_.find(node);
  return at != by_node_.end() ? at->second.lock() : nullptr;
}

CUresult Graphs::plan(std::uint64_t exec_id, std::vector<GraphNode> nodes, GraphExec* exec) {
  free_dropped();
  exec->nodes = std::move(nodes);
  const std::vector<GraphNode>& all = exec->nodes;
  std::vector<std::uint64_t> downloads;
  std::vector<std::uint64_t> hosts;
  std::vector<std::uint32_t> download_nodes;
  std::vector<bool> is_late(all.size(), false);  // uploads behind a host function
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].kind != NodeKind::kDownload) continue;
    download_nodes.push_back(i);
    exec->downloads.push_back(all[i].copy);
    for (const std::uint64_t word : {all[i].copy.twin->id, std::uint64_t{all[i].copy.offset},
                                     std::uint64_t{all[i].copy.bytes}})
      downloads.push_back(word);
  }
  std::vector<bool> is_delivered(download_nodes.size(), false);
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].kind != NodeKind::kHostFunction) continue;
    exec->functions.push_back(all[i].function);
    const std::vector<bool> before = ancestors(all, i);
    hosts.push_back(all[i].function->node);
    const std::size_t count_at = hosts.size();
    hosts.push_back(0);
    for (std::size_t d = 0; d < download_nodes.size(); ++d) {
      // What an earlier function saw may have been changed by it since.
      if (!before[download_nodes[d]] || is_delivered[d]) continue;
      is_delivered[d] = true;
      hosts.push_back(d);
      ++hosts[count_at];
    }
    std::lock_guard lock(mutex_);
    for (std::uint32_t later = i + 1; later < all.size(); ++later) {
      if (all[later].kind != NodeKind::kUpload || !ancestors(all, later)[i]) continue;
      is_late[later] = true;
      add_once(all[i].function->uploads, all[later].copy);
    }
  }
  for (std::uint32_t i = 0; i < all.size(); ++i)
    if (all[i].kind == NodeKind::kUpload && !is_late[i]) add_once(exec->uploads, all[i].copy);
  if (!exec->touches_client()) return CUDA_SUCCESS;
  if (std::max(downloads.size(), hosts.size()) * sizeof(std::uint64_t) > wire::kPayloadBytesMax) {
    SLUICE_LOG_WARN("shim", "A graph has more copies and host functions than can be carried");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  wire::graph_plan args{};
  args.exec = exec_id;
  args.downloads_bytes = bytes_of(downloads).size();
  args.hosts_bytes = bytes_of(hosts).size();
  return post(args, {bytes_of(downloads), bytes_of(hosts)});
}

CUresult Graphs::send(const HostCopy& copy, std::uint64_t run, std::uint32_t context) {
  for (std::size_t at = 0; at < copy.bytes;) {
    const std::size_t bytes = std::min(copy.bytes - at, wire::kPayloadBytesMax);
    wire::graph_upload args{};
    args.twin = copy.twin->id;
    args.offset = copy.offset + at;
    args.run = run;
    args.data_bytes = bytes;
    const CUresult lost = pipeline_.post({.opcode = args.kOpcode,
                                          .context = context,
                                          .fixed = detail::as_bytes(args),
                                          .blobs = {Bytes(copy.host() + at, bytes)}});
    if (lost != CUDA_SUCCESS) return lost;
    at += bytes;
  }
  return CUDA_SUCCESS;
}

CUresult Graphs::launch(const std::shared_ptr<GraphExec>& owner, std::uint64_t exec_id,
                        Stream& stream, std::uint32_t context) {
  const GraphExec& exec = *owner;
  // The host's memory is read as it is when the stream's earlier commands have written it.
  if (!exec.uploads.empty() && functions_.pending() != 0)
    if (const CUresult lost = settle_host_functions(stream)) return lost;
  std::size_t upload_bytes = 0;
  for (const HostCopy& upload : exec.uploads) {
    if (const CUresult lost = transfers_.settle(upload.host(), upload.bytes)) return lost;
    upload_bytes += upload.bytes;
  }
  std::lock_guard launching(launch_mutex_);
  const auto has_room = [&] {
    const std::size_t pending = pending_bytes_.load();
    return pending == 0 || pending + upload_bytes <= kPendingBytesMax;
  };
  if (const CUresult lost = pipeline_.wait_until(has_room)) return lost;
  Launch launch;
  launch.seq = std::make_shared<std::atomic<std::uint64_t>>(0);
  launch.upload_bytes = upload_bytes;
  launch.exec = owner;
  for (const HostCopy& upload : exec.uploads)
    if (const CUresult lost = send(upload, 0, context)) return lost;
  for (const HostCopy& download : exec.downloads)
    launch.transfers.push_back(transfers_.announce(download.host(), download.bytes));
  count_bytes(upload_bytes);
  const std::vector<std::uint64_t> transfers = launch.transfers;
  const SharedSeq seq = launch.seq;
  const std::uint64_t token = functions_.begin_launch();
  note_host_function(stream, token);
  {
    std::lock_guard lock(mutex_);
    launches_[token] = std::move(launch);
    pending_bytes_.fetch_add(upload_bytes);
  }
  pipeline_.expect();
  wire::graph_launch args{};
  args.exec = exec_id;
  args.stream = stream.id;
  args.token = token;
  args.transfers_bytes = bytes_of(transfers).size();
  return pipeline_.post({.opcode = args.kOpcode,
                         .context = context,
                         .fixed = detail::as_bytes(args),
                         .blobs = {bytes_of(transfers)},
                         .seq = seq.get()});
}

void Graphs::after_function(const GraphFunction& function, std::uint64_t run) {
  std::vector<HostCopy> uploads;
  {
    std::lock_guard lock(mutex_);
    uploads = function.uploads;
  }
  for (const HostCopy& upload : uploads) send(upload, run, upload.twin->context);
}

void Graphs::end(std::uint64_t token) {
  pipeline_.fulfilled();
  functions_.end_launch(token);
}

Status Graphs::on_done(const wire::RecordHeader&, Bytes body) {
  SLUICE_TRY(const auto push, decode<wire::graph_done>(body));
  {
    std::lock_guard lock(mutex_);
    const auto at = launches_.find(push.fixed.token);
    if (at == launches_.end())
      return fail(ErrorCode::kProtocol, "the end of a graph launch that was never made");
    pending_bytes_.fetch_sub(at->second.upload_bytes);
    launches_.erase(at);
  }
  end(push.fixed.token);
  return {};
}

void Graphs::on_launch_failed(std::uint64_t seq, CUresult result) {
  std::uint64_t token = 0;
  std::vector<std::uint64_t> transfers;
  {
    std::lock_guard lock(mutex_);
    const auto at = std::find_if(launches_.begin(), launches_.end(), [seq](const auto& item) {
      return item.second.seq->load() == seq;
    });
    if (at == launches_.end()) return;
    token = at->first;
    transfers = std::move(at->second.transfers);
    pending_bytes_.fetch_sub(at->second.upload_bytes);
    launches_.erase(at);
  }
  for (const std::uint64_t transfer : transfers) transfers_.fail_announced(transfer, result);
  end(token);
}

}  // namespace sluice::shim
