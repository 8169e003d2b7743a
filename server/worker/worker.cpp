#include "server/worker/worker.h"

#include "common/format.h"
#include "common/log.h"
#include "server/handlers.h"
#include "server/worker/graphs.h"
#include "server/worker/host_functions.h"

#include <cstring>

namespace sluice::server {
namespace {
using namespace std::chrono_literals;
constexpr std::size_t kPollBytes = 1024 * 1024;
constexpr auto kWait = 50ms;
}  // namespace

const DriverTable& Call::driver() const {
  return worker_.driver();
}
HandleTable& handle_table(Call& call) {
  return call.worker().handles();
}
void note_stream_work(Call& call, CUstream stream) {
  call.worker().note_work(
      stream,
      call.header().opcode == static_cast<std::uint16_t>(wire::Opcode::copy_h2d) ||
          call.header().opcode == static_cast<std::uint16_t>(wire::Opcode::copy_h2d_staged));
}

Worker::Worker(const DriverTable& driver, std::unique_ptr<transport::Channel> channel,
               LedgerLink& ledger)
    : host_functions(std::make_unique<HostFunctions>()),
      graphs(std::make_unique<Graphs>(*this)),
      driver_(driver),
      channel_(std::move(channel)),
      ledger_(ledger),
      memory_(ledger, memory_mutex),
      outbox_(*channel_),
      staging_(driver),
      shared_staging_(driver, channel_->staging()),
      lanes_(channel_->lanes()),
      meter_(driver),
      upload_order_(driver),
      shadows_(driver, outbox_),
      device_output_(outbox_),
      completer_(
          driver, [this] { before_completions(); }, [this] { flush_completions(); }) {}

void Worker::before_completions() {
  shadows_.send_changes();
  device_output_.send();
}

void Worker::flush_completions() {
  meter_.collect();
  outbox_.flush();
}

Worker::~Worker() {
  host_functions->end();
  completer_.stop();
  lanes_.stop();
}

std::uint32_t Worker::current_device() {
  const std::lock_guard lock(memory_mutex);
  const auto found = contexts.find(current_);
  return found != contexts.end() ? found->second.device : 0;
}

void Worker::stop() {
  if (gate_ != nullptr) gate_->stop();
  if (copy_gate_ != nullptr) copy_gate_->stop();
  channel_->close();
}

Status Worker::run() {
  Status ended = serve();
  host_functions->end();
  device_output_.send();
  outbox_.flush();
  meter_.finish(100ms);
  return ended;
}

Status Worker::serve() {
  wire::RecordAssembler<transport::RecvSink> assembler(*this);
  while (!is_goodbye) {
    const auto got = channel_->poll(assembler, kPollBytes);
    if (!got) {
      if (got.error().code == ErrorCode::kPeerClosed) return {};
      return fail(got.error().with_context("session"));
    }
    if (*got > 0) {
      received_bytes_ += *got;
      outbox_.flush_if_due();
      continue;
    }
    destroy_finished_streams();
    if (gate_ != nullptr) gate_->rest();
    outbox_.flush();
    const auto ready = channel_->wait(transport::Clock::now() + kWait);
    if (!ready && ready.error().code != ErrorCode::kPeerClosed) return fail(ready.error());
  }
  return {};
}

CUresult Worker::enter_context(std::uint32_t id) {
  if (id == current_id_) return CUDA_SUCCESS;
  CUcontext context = nullptr;
  if (id != 0) {
    context = static_cast<CUcontext>(handles_.find(HandleTable::kind<CUcontext>(), id));
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  }
  const CUresult result = driver_.cuCtxSetCurrent(context);
  if (result != CUDA_SUCCESS) return result;
  current_ = context;
  current_id_ = id;
  return CUDA_SUCCESS;
}

/// A copy whose context is gone has its credit and its data under way all the same.
void Worker::refuse_copy(const wire::RecordHeader& header, std::span<const std::byte> body) {
  wire::copy_credit credit{};
  if (header.opcode == static_cast<std::uint16_t>(wire::Opcode::copy_h2d) &&
      body.size() >= sizeof(wire::copy_h2d)) {
    wire::copy_h2d args{};
    std::memcpy(&args, body.data(), sizeof args);
    if (args.data_bytes > body.size()) return;
    credit.h2d_bytes = args.data_bytes;
  } else if (lanes_.exist() &&
             header.opcode == static_cast<std::uint16_t>(wire::Opcode::copy_h2d_staged) &&
             body.size() >= sizeof(wire::copy_h2d_staged)) {
    wire::copy_h2d_staged args{};
    std::memcpy(&args, body.data(), sizeof args);
    if (!lanes_.has(args.staging))
      return break_off({ErrorCode::kProtocol, "a copy names a lane that is none"});
    outbox_.flush();  // the client may wait for an answer before it sends on
    if (const Status gone = lanes_.discard(args.staging, header.seq, args.bytes); !gone)
      return break_off(gone.error());
    credit.h2d_bytes = args.bytes;
  } else {
    return;
  }
  outbox_.push(credit, header, CUDA_SUCCESS);
}

void Worker::leave_context() {
  gated_context_ = nullptr;  // another one may get its address
  driver_.cuCtxSetCurrent(nullptr);
  current_ = nullptr;
  current_id_ = 0;
}

Status Worker::on_record(const wire::RecordHeader& header, std::span<const std::byte> body) {
  if (is_goodbye) return {};
  if (header.seq != last_seq_ + 1)
    return fail(ErrorCode::kProtocol, format("record {} follows {}", header.seq, last_seq_));
  last_seq_ = header.seq;
  if ((header.flags & ~wire::kFlagWantsReply) != 0)
    return fail(ErrorCode::kProtocol, format("record {} has flags {}", header.seq, header.flags));
  calls_.fetch_add(1, std::memory_order_relaxed);
  const bool wants_reply = (header.flags & wire::kFlagWantsReply) != 0;
  if (wants_reply) waits_.fetch_add(1, std::memory_order_relaxed);
  Outcome outcome;
  outcome.result = enter_context(header.context);
  if (outcome.result == CUDA_SUCCESS)
    SLUICE_CHECK(dispatch(*this, header, body, outcome));
  else
    refuse_copy(header, body);
  if (broken_) return fail(*broken_);
  if (log_enabled(LogLevel::kTrace))
    SLUICE_LOG_TRACE("driver", "{} seq={} result={}",
                     wire::opcode_name(static_cast<wire::Opcode>(header.opcode)), header.seq,
                     static_cast<int>(outcome.result));
  if (!outcome.is_deferred) {
    if (wants_reply) {
      wire::RecordHeader reply = header;
      reply.flags = wire::kFlagReply;
      reply.result = outcome.result;
      answers_.fetch_add(1, std::memory_order_relaxed);
      // At most two variable parts exist in any reply.
      const auto part = [&](std::size_t i) {
        return i < outcome.reply_blobs.size() ? Outbox::Bytes(outcome.reply_blobs[i])
                                              : Outbox::Bytes();
      };
      outbox_.send(reply, outcome.reply, {part(0), part(1)});
    } else if (outcome.result != CUDA_SUCCESS) {
      report_failure(header, outcome.result);
    }
  }
  outbox_.flush_if_large();
  return {};
}

void Worker::answer(const wire::RecordHeader& request, CUresult result,
                    std::span<const std::byte> fixed) {
  answers_.fetch_add(1, std::memory_order_relaxed);
  wire::RecordHeader reply = request;
  reply.flags = wire::kFlagReply;
  reply.result = result;
  outbox_.send(reply, fixed, {});
}

void Worker::report_failure(const wire::RecordHeader& request, CUresult result) {
  wire::failure push{};
  push.opcode = request.opcode;
  outbox_.push(push, request, result);
}

void Worker::after_context_of(CUcontext context, Completer::Action action,
                              Completer::Patience patience) {
  destroy_finished_streams();
  std::vector<StreamRef> streams = streams_.busy(context);
  // An idle context is asked all the same: it may have met an error.
  if (streams.empty()) streams.push_back(streams_.find(context, nullptr));
  if (context != current_) driver_.cuCtxSetCurrent(context);
  for (const StreamRef& state : streams)
    if (state->captures == 0) meter_.end(context, state->stream);
  completer_.add(context, streams, Completer::Scope::kContext, Completer::Kind::kAnswer,
                 std::move(action), patience);
  if (context != current_) driver_.cuCtxSetCurrent(current_);
}

void Worker::after_all_work(std::function<void()> action) {
  destroy_finished_streams();
  std::vector<CUcontext> busy;
  {
    const std::lock_guard lock(memory_mutex);
    for (const auto& known : contexts) busy.push_back(known.first);
  }
  std::erase_if(busy, [&](CUcontext context) { return streams_.busy(context).empty(); });
  if (busy.empty()) return action();
  auto rest = std::make_shared<std::atomic<std::size_t>>(busy.size());
  const auto one_is_over = [rest, action = std::move(action)](CUresult) {
    if (rest->fetch_sub(1) == 1) action();
  };
  for (CUcontext context : busy) after_context_of(context, one_is_over);
}

void Worker::after_everything(CUcontext context, Completer::Action action) {
  std::vector<CUcontext> others;
  {
    const std::lock_guard lock(memory_mutex);
    for (const auto& known : contexts)
      if (known.first != context) others.push_back(known.first);
  }
  std::erase_if(others, [&](CUcontext other) { return streams_.busy(other).empty(); });
  if (others.empty()) return after_context_of(context, std::move(action));
  struct Rest {
    std::atomic<std::size_t> count;
    std::atomic<int> result{CUDA_SUCCESS};
    Completer::Action action;
  };
  auto rest = std::make_shared<Rest>();
  rest->count = others.size() + 1;
  rest->action = std::move(action);
  // Of a context that is destroyed meanwhile the completion still comes: its destruction waits,
  // too.
  const auto one_is_over = [this, rest, context](bool is_own, CUresult result) {
    if (is_own) rest->result = result;
    if (rest->count.fetch_sub(1) != 1) return;
    driver_.cuCtxPushCurrent_v2(context);
    rest->action(static_cast<CUresult>(rest->result.load()));
    CUcontext popped = nullptr;
    driver_.cuCtxPopCurrent_v2(&popped);
  };
  for (CUcontext other : others)
    after_context_of(other, [one_is_over](CUresult result) { one_is_over(false, result); });
  after_context_of(context, [one_is_over](CUresult result) { one_is_over(true, result); });
}

void Worker::after_stream(CUstream stream, Completer::Kind kind, Completer::Action action) {
  const StreamRef state = streams_.find(current_, stream);
  if (state->context != current_) driver_.cuCtxSetCurrent(state->context);
  if (kind == Completer::Kind::kAnswer && state->captures == 0) meter_.end(state->context, stream);
  completer_.add(state->context, {&state, 1}, Completer::Scope::kStream, kind, std::move(action));
  if (state->context != current_) driver_.cuCtxSetCurrent(current_);
}

void Worker::after_record(CUstream stream, CUevent event, Completer::Action action) {
  const StreamRef state = streams_.find(current_, stream);
  if (state->context != current_) driver_.cuCtxSetCurrent(state->context);
  if (state->captures == 0) meter_.end(state->context, stream);
  completer_.add_record(state, event, std::move(action));
  if (state->context != current_) driver_.cuCtxSetCurrent(current_);
}

void Worker::note_work(CUstream stream, bool is_upload) {
  const StreamRef state = streams_.find(current_, stream);
  upload_order_.before_work(state, current_, is_upload, streams_.is_single());
  streams_.note_work(state);
}

void Worker::destroy_finished_streams() {
  for (const StreamRef& state : streams_.take_finished()) {
    meter_.forget(state->context, state->stream);
    const CUresult result = driver_.cuStreamDestroy_v2(state->stream);
    if (result != CUDA_SUCCESS)
      SLUICE_LOG_DEBUG("driver", "cuStreamDestroy result={}", static_cast<int>(result));
  }
}

void Worker::recall_memory() {
  completer_.post([this](CUresult) {
    outbox_.push(wire::memory_recall{}, wire::RecordHeader{}, CUDA_SUCCESS);
    outbox_.flush();
  });
}

void Worker::report_memory() {
  memory_.report(staging_.pinned_bytes() + shared_staging_.pinned_bytes() +
                 shadows_.pinned_bytes() + graphs->pinned_bytes());
}

link::Stats Worker::stats() const {
  link::Stats out;
  out.calls = calls_;
  const std::uint64_t answers = answers_;  // before waits_, so that it is never the larger one
  out.waits = waits_;
  out.pending_calls = out.waits - answers;
  out.bytes_in = received_bytes_;
  out.bytes_out = outbox_.sent_bytes() + staged_bytes_;
  out.gpu_us = turns_ != nullptr ? turns_->busy_us() : meter_.busy_us();
  out.memory_peak_bytes = memory_.peak_bytes();
  return out;
}

}  // namespace sluice::server
