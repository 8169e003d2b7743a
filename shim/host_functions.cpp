#include "shim/host_functions.h"

#include "common/log.h"
#include "common/quiet_thread.h"
#include "protocol/launch.h"
#include "shim/decode.h"
#include "shim/host_order.h"
#include "shim/process.h"

#include <algorithm>
#include <cstring>

namespace sluice::shim {

HostFunctions::~HostFunctions() {
  stops_ = true;
  word_.wake();
  if (has_thread_) ::pthread_join(thread_, nullptr);
}

CUresult HostFunctions::launch(const Function& function, Stream& stream, std::uint32_t context) {
  wire::host_func args{};
  args.stream = stream.id;
  args.is_callback = function.callback != nullptr ? 1 : 0;
  const auto seq = std::make_shared<std::atomic<std::uint64_t>>(0);
  {
    std::lock_guard lock(mutex_);
    if (!has_thread_ && !start()) return CUDA_ERROR_OPERATING_SYSTEM;
    args.token = ++last_token_;
    waiting_.emplace(args.token, function).first->second.seq = seq;
    pending_.insert(args.token);
    pending_count_ = pending_.size();
  }
  pipeline_.expect();
  note_host_function(stream, args.token);
  return pipeline_.post({.opcode = args.kOpcode,
                         .context = context,
                         .fixed = detail::as_bytes(args),
                         .blobs = {},
                         .seq = seq.get()});
}

CUresult HostFunctions::start_thread() {
  std::lock_guard lock(mutex_);
  return has_thread_ || start() ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

std::uint64_t HostFunctions::begin_launch() {
  std::lock_guard lock(mutex_);
  launches_.insert(++last_token_);
  pending_.insert(last_token_);
  pending_count_ = pending_.size();
  return last_token_;
}

void HostFunctions::end_launch(std::uint64_t token) {
  {
    std::lock_guard lock(mutex_);
    launches_.erase(token);
    pending_.erase(token);
    pending_count_ = pending_.size();
  }
  ran_word_.wake();
}

Status HostFunctions::on_run(const wire::RecordHeader& header, Bytes body) {
  SLUICE_TRY(const auto push, decode<wire::host_func_run>(body));
  {
    std::lock_guard lock(mutex_);
    const auto at = waiting_.find(push.fixed.token);
    if (push.fixed.node != 0) {
      due_.push_back({push.fixed.token, push.fixed.node, {}, static_cast<CUresult>(header.result)});
    } else if (at != waiting_.end()) {
      due_.push_back({push.fixed.token, 0, at->second, static_cast<CUresult>(header.result)});
      waiting_.erase(at);
    } else {
      return fail(ErrorCode::kProtocol, "a host function that was never launched is due");
    }
  }
  if (push.fixed.node == 0) pipeline_.fulfilled();
  word_.wake();
  return {};
}

void HostFunctions::on_launch_failed(std::uint64_t seq, CUresult result) {
  {
    std::lock_guard lock(mutex_);
    const auto at = std::find_if(waiting_.begin(), waiting_.end(), [seq](const auto& item) {
      return item.second.seq->load() == seq;
    });
    if (at == waiting_.end()) return;
    if (at->second.callback != nullptr) {
      due_.push_back({at->first, 0, at->second, result});
    } else {
      pending_.erase(at->first);
      pending_count_ = pending_.size();
    }
    waiting_.erase(at);
  }
  pipeline_.fulfilled();
  word_.wake();
  ran_word_.wake();
}

bool HostFunctions::is_pending(std::uint64_t token) const {
  std::lock_guard lock(mutex_);
  return pending_.count(token) != 0;
}

CUresult HostFunctions::wait(std::uint64_t token) {
  const auto is_due = [&] {
    std::lock_guard lock(mutex_);
    return waiting_.count(token) == 0 && launches_.count(token) == 0;
  };
  // Reading the channel brings its turn; then it runs on our own thread.
  if (const CUresult lost = pipeline_.wait_until(is_due)) return lost;
  for (;;) {
    const std::uint32_t seen = ran_word_.value();
    if (!is_pending(token)) return CUDA_SUCCESS;
    if (pipeline_.is_lost()) return kSessionLost;
    ran_word_.wait(seen, Clock::now() + Pipeline::kRecheck);
  }
}

bool HostFunctions::start() {
  const auto thread = start_quiet_thread(
      "sluice-hostfn",
      [](void* self) -> void* {
        static_cast<HostFunctions*>(self)->serve();
        return nullptr;
      },
      this);
  if (thread)
    thread_ = *thread;
  else
    SLUICE_LOG_ERROR("session", "The thread for host functions cannot be started: {}",
                     thread.error().message);
  has_thread_ = thread.has_value();
  return has_thread_;
}

void HostFunctions::serve() {
  while (!stops_.load()) {
    const std::uint32_t seen = word_.value();
    Due due;
    {
      std::lock_guard lock(mutex_);
      if (!due_.empty()) {
        due = due_.front();
        due_.pop_front();
      }
    }
    if (due.token != 0) {
      run(due);
    } else if (!stops_.load()) {
      word_.wait(seen);
    }
  }
}

void HostFunctions::run(const Due& due) {
  if (due.node != 0) {
    // A graph that was destroyed while it runs needs its functions no less: the exec keeps them.
    if (const auto function = session().graphs().function(due.node)) {
      function->run(function->data);
      session().graphs().after_function(*function, due.token);
    }
  } else if (due.function.callback != nullptr) {
    due.function.callback(due.function.stream, due.status, due.function.data);
  } else {
    due.function.run(due.function.data);
  }
  session().shadows().upload();  // what it wrote is there for the work behind it
  {
    std::lock_guard lock(mutex_);
    pending_.erase(due.token);
    pending_count_ = pending_.size();
  }
  ran_word_.wake();
  wire::host_func_done args{};
  args.token = due.token;
  pipeline_.post(
      {.opcode = args.kOpcode, .context = 0, .fixed = detail::as_bytes(args), .blobs = {}});
  pipeline_.flush();
}

}  // namespace sluice::shim
