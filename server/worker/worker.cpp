#include "server/worker/worker.h"

#include "common/format.h"
#include "common/log.h"
#include "server/handlers.h"
#include "server/worker/host_functions.h"

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

Worker::Worker(const DriverTable& driver, std::unique_ptr<transport::Channel> channel,
               LedgerLink& ledger)
    : host_functions(std::make_unique<HostFunctions>()),
      driver_(driver),
      channel_(std::move(channel)),
      ledger_(ledger),
      outbox_(*channel_),
      staging_(driver),
      meter_(driver),
      completer_(driver, [this] {
        meter_.collect();
        outbox_.flush();
      }) {}

Worker::~Worker() {
  host_functions->end();
  completer_.stop();
}

std::uint32_t Worker::current_device() const {
  const auto found = context_devices.find(current_);
  return found != context_devices.end() ? found->second : 0;
}

Status Worker::run() {
  wire::RecordAssembler<transport::RecvSink> assembler(*this);
  while (!is_goodbye) {
    auto got = channel_->poll(assembler, kPollBytes);
    if (!got) {
      host_functions->end();
      if (got.error().code == ErrorCode::kPeerClosed) return {};
      return fail(got.error().with_context("session"));
    }
    if (*got > 0) {
      received_bytes_ += *got;
      continue;
    }
    outbox_.flush();
    const auto ready = channel_->wait(transport::Clock::now() + kWait);
    if (!ready && ready.error().code != ErrorCode::kPeerClosed) return fail(ready.error());
  }
  outbox_.flush();
  host_functions->end();
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

Status Worker::on_record(const wire::RecordHeader& header, std::span<const std::byte> body) {
  if (is_goodbye) return {};
  if (header.seq != last_seq_ + 1)
    return fail(ErrorCode::kProtocol, format("record {} follows {}", header.seq, last_seq_));
  last_seq_ = header.seq;
  if ((header.flags & ~wire::kFlagWantsReply) != 0)
    return fail(ErrorCode::kProtocol, format("record {} has flags {}", header.seq, header.flags));
  ++calls_;
  const bool wants_reply = (header.flags & wire::kFlagWantsReply) != 0;
  if (wants_reply) ++waits_;
  Outcome outcome;
  outcome.result = enter_context(header.context);
  if (outcome.result == CUDA_SUCCESS) {
    SLUICE_CHECK(dispatch(*this, header, body, outcome));
  }
  if (log_enabled(LogLevel::kTrace))
    SLUICE_LOG_TRACE("driver", "{} seq={} result={}",
                     wire::opcode_name(static_cast<wire::Opcode>(header.opcode)), header.seq,
                     static_cast<int>(outcome.result));
  if (outcome.is_deferred) {
    outbox_.flush_if_large();
    return {};
  }
  if (!wants_reply) {
    if (outcome.result != CUDA_SUCCESS) report_failure(header.seq, header.opcode, outcome.result);
    outbox_.flush_if_large();
    return {};
  }
  wire::RecordHeader reply{};
  reply.opcode = header.opcode;
  reply.flags = wire::kFlagReply;
  reply.seq = header.seq;
  reply.result = outcome.result;
  // At most two variable parts exist in any reply.
  const auto part = [&](std::size_t i) {
    return i < outcome.reply_blobs.size() ? Outbox::Bytes(outcome.reply_blobs[i]) : Outbox::Bytes();
  };
  outbox_.send(reply, outcome.reply, {part(0), part(1)});
  return {};
}

void Worker::answer(std::uint64_t seq, std::uint16_t opcode, CUresult result,
                    std::span<const std::byte> fixed) {
  wire::RecordHeader reply{};
  reply.opcode = opcode;
  reply.flags = wire::kFlagReply;
  reply.seq = seq;
  reply.result = result;
  outbox_.send(reply, fixed, {});
}

void Worker::report_failure(std::uint64_t seq, std::uint16_t opcode, CUresult result) {
  wire::failure push{};
  push.opcode = opcode;
  outbox_.push(push, seq, result);
}

void Worker::after_context(Completer::Kind kind, Completer::Action action) {
  std::vector<CUstream> streams = {nullptr};
  meter_.end(current_, nullptr);
  for (const auto& [stream, is_busy] : busy_streams_[current_]) {
    meter_.end(current_, stream);
    streams.push_back(stream);
  }
  completer_.add(current_, streams, kind, std::move(action));
}

void Worker::after_context_of(CUcontext context, Completer::Kind kind, Completer::Action action) {
  driver_.cuCtxSetCurrent(context);
  current_ = context;
  after_context(kind, std::move(action));
  busy_streams_.erase(context);
  driver_.cuCtxSetCurrent(nullptr);
  current_ = nullptr;
  current_id_ = 0;
}

void Worker::after_stream(CUstream stream, Completer::Kind kind, Completer::Action action) {
  if (kind == Completer::Kind::kAnswer) meter_.end(current_, stream);
  completer_.add(current_, {stream}, kind, std::move(action));
}

link::Stats Worker::stats() const {
  link::Stats out;
  out.calls = calls_;
  out.waits = waits_;
  out.bytes_in = received_bytes_;
  out.bytes_out = outbox_.sent_bytes();
  out.gpu_us = meter_.busy_us();
  out.memory_peak_bytes = memory_peak_bytes;
  return out;
}

}  // namespace sluice::server
