#include "server/worker/prover.h"

#include "common/log.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace sluice::server {

Prover::Prover(SessionProof proof, OnProved on_proved)
    : candidates_(proof),
      on_proved_(std::move(on_proved)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { run(); }) {}

Prover::~Prover() {
  stops_ = true;
  ::eventfd_write(bell_.get(), 1);
  thread_.join();
}

void Prover::add(Fd socket, std::uint8_t lane, std::uint8_t lane_count) {
  {
    const std::lock_guard lock(mutex_);
    new_.push_back({std::move(socket), lane, lane_count});
  }
  ::eventfd_write(bell_.get(), 1);
}

void Prover::run() {
  while (!stops_) {
    const auto has_new = candidates_.wait(bell_.get());
    if (!has_new) return SLUICE_LOG_ERROR("session", "{}", has_new.error().message);
    if (auto proved = candidates_.advance()) on_proved_(std::move(*proved));
    if (*has_new) take_new();
  }
}

void Prover::take_new() {
  eventfd_t rings = 0;
  ::eventfd_read(bell_.get(), &rings);
  std::deque<New> taken;
  {
    const std::lock_guard lock(mutex_);
    taken = std::exchange(new_, {});
  }
  for (New& one : taken) {
    const Status added =
        candidates_.add_with_frame(std::move(one.socket), one.lane, one.lane_count);
    if (!added) SLUICE_LOG_WARN("session", "a connection is closed: {}", added.error().message);
  }
}

}  // namespace sluice::server
