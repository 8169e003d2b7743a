// What comes before work for a device: its turn, and a copy's part of its way.
#include "server/worker/worker.h"

namespace sluice::server {

void begin_device_work(Call& call, CUstream stream, std::uint64_t bytes) {
  call.worker().begin_work(stream, scheduler::CostModel::key_of(call.header().opcode, bytes, 0, 0));
}

void Worker::use_turns(Turns& turns, HeldBy by) {
  copy_gate_ = std::make_unique<CopyGate>(turns);
  if (by == HeldBy::kDriver)
    turns_ = &turns;
  else
    gate_ = std::make_unique<LaunchGate>(
        turns, [this](std::function<void()> action) { after_all_work(std::move(action)); });
}

void Worker::begin_work(CUstream stream, std::uint64_t cost_key) {
  const StreamRef state = streams_.find(current_, stream);
  if (state->captures != 0) return;
  if (gate_ != nullptr) gate_->before_work(gated_device(), cost_key);
  if (turns_ == nullptr) meter_.begin(current_, stream);
}

std::uint32_t Worker::gated_device() {
  if (gated_context_ != current_) {
    gated_context_ = current_;
    gated_device_ = current_device();
  }
  return gated_device_;
}

Worker::Copy Worker::begin_copy(CUstream stream, turns::Way way, std::uint64_t bytes) {
  if (copy_gate_ == nullptr || streams_.find(current_, stream)->captures != 0) return {};
  const Copy copy{way, gated_device(), bytes};
  copy_gate_->before_copy(copy.way, copy.device, copy.bytes, [this] {
    outbox_.flush();  // the client may wait for what was answered
    if (gate_ != nullptr) gate_->rest();
  });
  return copy;
}

void Worker::end_copy(const Copy& copy) {
  if (copy.bytes > 0) copy_gate_->after_copy(copy.way, copy.device, copy.bytes);
}

}  // namespace sluice::server
