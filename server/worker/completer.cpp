#include "server/worker/completer.h"

#include <algorithm>
#include <chrono>

namespace sluice::server {
namespace {

using std::chrono::microseconds;
using Clock = std::chrono::steady_clock;
constexpr microseconds kSpin{50};
constexpr microseconds kSleepMin{20};
constexpr microseconds kSleepMax{250};
/// Chain of the items that wait for a whole context; no stream has this address.
constexpr char kContextChain = 0;

bool is_older(const auto& a, const auto& b) {
  return a->order < b->order;
}

}  // namespace

CUresult Completer::record(CUcontext context, CUstream stream, CUevent* out) {
  *out = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::vector<CUevent>& idle = events_[context];
    if (!idle.empty()) {
      *out = idle.back();
      idle.pop_back();
    }
  }
  if (*out == nullptr)
    if (const CUresult bad = driver_.cuEventCreate(out, CU_EVENT_DISABLE_TIMING)) return bad;
  return driver_.cuEventRecord(*out, stream);
}

void Completer::add(CUcontext context, std::span<const StreamRef> streams, Scope scope, Kind kind,
                    Action action, Patience patience) {
  auto item = std::make_unique<Item>();
  item->context = context;
  item->chain = scope == Scope::kContext || streams.empty()
                    ? static_cast<const void*>(&kContextChain)
                    : streams.front()->stream;
  item->kind = kind;
  item->action = std::move(action);
  if (patience) item->deadline = Clock::now() + *patience;
  start(std::move(item), streams);
}

void Completer::add_record(const StreamRef& stream, CUevent event, Action action) {
  auto item = std::make_unique<Item>();
  item->context = stream->context;
  item->chain = stream->stream;
  item->action = std::move(action);
  item->recorded = event;
  {
    const std::lock_guard lock(records_mutex_);
    records_[event] = item.get();
  }
  start(std::move(item), {&stream, 1});
}

void Completer::forget_record(CUevent event) {
  const std::lock_guard lock(records_mutex_);
  records_.erase(event);
}

CUresult Completer::query_record(const Item& item) {
  if (item.recorded == nullptr) return CUDA_ERROR_NOT_READY;
  const std::lock_guard lock(records_mutex_);
  const auto found = records_.find(item.recorded);
  if (found == records_.end() || found->second != &item) return CUDA_ERROR_NOT_READY;
  return driver_.cuEventQuery(item.recorded);
}

void Completer::start(ItemRef item, std::span<const StreamRef> streams) {
  const CUcontext context = item->context;
  item->waits.reserve(streams.size());
  for (const StreamRef& state : streams) {
    Wait& wait = item->waits.emplace_back(Wait{state, state->issued, nullptr});
    // No event goes into a stream that captures; what it had before has its own completion.
    if (state->captures != 0) continue;
    const CUresult result = record(context, state->stream, &wait.event);
    if (result != CUDA_SUCCESS && item->result == CUDA_SUCCESS) item->result = result;
  }
  if (item->result != CUDA_SUCCESS) item->is_ready = true;
  poll(*item);
  const bool is_ready = item->is_ready;
  if (is_ready && outstanding() == 0) {
    show_prints(*item);
    before_();
    return finish(*item);
  }
  enqueue(std::move(item));
  if (!is_ready) return;
  // Something else is under way, but this work is done: do not wait for the other thread to wake.
  if (const std::unique_lock order(sweep_mutex_, std::try_to_lock); order.owns_lock()) {
    sweep();
    driver_.cuCtxSetCurrent(context);
  }
}

void Completer::post(Action action) {
  auto item = std::make_unique<Item>();
  item->chain = &kContextChain;
  item->action = std::move(action);
  item->is_ready = true;
  enqueue(std::move(item));
}

void Completer::enqueue(ItemRef item) {
  count_.fetch_add(1, std::memory_order_acq_rel);
  const std::lock_guard lock(mutex_);
  incoming_.push_back(std::move(item));
  if (!thread_.joinable() && !is_stopping_) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
}

void Completer::poll(Item& item) {
  if (item.is_ready) return;
  for (; item.done < item.waits.size(); ++item.done) {
    const Wait& wait = item.waits[item.done];
    if (wait.state->is_given_up.load(std::memory_order_relaxed)) {
      item.result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
      continue;
    }
    if (wait.event == nullptr) {
      if (wait.state->completed.load(std::memory_order_acquire) < wait.issued) return;
      continue;
    }
    CUresult result = driver_.cuEventQuery(wait.event);
    if (result == CUDA_ERROR_NOT_READY) result = query_record(item);
    if (result == CUDA_ERROR_NOT_READY) return;
    if (result != CUDA_SUCCESS && item.result == CUDA_SUCCESS) item.result = result;
  }
  item.is_ready = true;
}

void Completer::give_up_if_due(const Item& item) {
  if (item.deadline > Clock::now()) return;
  for (std::size_t i = item.done; i < item.waits.size(); ++i)
    item.waits[i].state->is_given_up = true;
}

void Completer::show_prints(const Item& item) {
  if (!flushes_prints_ || item.kind != Kind::kAnswer || driver_.cuEventSynchronize == nullptr)
    return;
  // Drivers write their buffer in calls that synchronise; this one has nothing to wait for.
  for (const Wait& wait : item.waits)
    if (wait.event != nullptr && !wait.state->is_given_up) driver_.cuEventSynchronize(wait.event);
}

void Completer::finish(Item& item) {
  for (const Wait& wait : item.waits) wait.state->complete(wait.issued);
  if (item.recorded != nullptr) {
    const std::lock_guard lock(records_mutex_);
    const auto found = records_.find(item.recorded);
    if (found != records_.end() && found->second == &item) records_.erase(found);
  }
  item.action(item.result);
  const std::lock_guard lock(mutex_);
  if (dead_.contains(item.context)) return;
  for (const Wait& wait : item.waits)
    if (wait.event != nullptr) events_[item.context].push_back(wait.event);
}

void Completer::forget(CUcontext context) {
  const std::lock_guard lock(mutex_);
  dead_.insert(context);
  events_.erase(context);
}

void Completer::remember(CUcontext context) {
  const std::lock_guard lock(mutex_);
  dead_.erase(context);
}

void Completer::take_incoming() {
  const std::lock_guard lock(mutex_);
  for (; !incoming_.empty(); incoming_.pop_front()) {
    ItemRef item = std::move(incoming_.front());
    item->order = ++last_order_;
    chains_[{item->context, item->chain}].push_back(std::move(item));
  }
}

void Completer::enter(CUcontext context) {
  if (context == nullptr || (is_entered_ && entered_ == context)) return;
  driver_.cuCtxSetCurrent(context);
  entered_ = context;
  is_entered_ = true;
}

bool Completer::drain(Items* data, Items* answers) {
  const std::size_t before = answers->size();
  for (auto chain = chains_.begin(); chain != chains_.end();) {
    std::deque<ItemRef>& items = chain->second;
    // What takes the context away is the last that waits for it.
    if (!items.empty()) give_up_if_due(*items.back());
    while (!items.empty()) {
      Item& oldest = *items.front();
      if (!oldest.is_ready) enter(oldest.context);
      poll(oldest);
      if (!oldest.is_ready) break;
      (oldest.kind == Kind::kData ? data : answers)->push_back(std::move(items.front()));
      items.pop_front();
    }
    chain = items.empty() ? chains_.erase(chain) : std::next(chain);
  }
  return answers->size() > before;
}

bool Completer::sweep() {
  is_entered_ = false;
  take_incoming();
  Items data;
  Items answers;
  // What a ready answer implies is complete by now, but may have been asked before the answer was:
  // look again until a look finds no further answer.
  while (drain(&data, &answers)) {
  }
  if (data.empty() && answers.empty()) return false;
  std::sort(data.begin(), data.end(), is_older<ItemRef, ItemRef>);
  std::sort(answers.begin(), answers.end(), is_older<ItemRef, ItemRef>);
  for (const ItemRef& item : answers) {
    if (flushes_prints_) enter(item->context);
    show_prints(*item);
  }
  before_();
  for (const ItemRef& item : data) finish(*item);
  for (const ItemRef& item : answers) {
    enter(item->context);
    finish(*item);
    is_entered_ = false;  // an action may destroy a context, and the next may have its address
  }
  flush_();
  count_.fetch_sub(data.size() + answers.size(), std::memory_order_acq_rel);
  return true;
}

void Completer::run() {
  auto busy_since = Clock::now();
  microseconds sleep = kSleepMin;
  const auto restart = [&] {
    busy_since = Clock::now();
    sleep = kSleepMin;
  };
  for (;;) {
    bool has_acted = false;
    {
      const std::lock_guard order(sweep_mutex_);
      has_acted = sweep();
    }
    std::unique_lock lock(mutex_);
    const auto has_news = [&] { return is_stopping_ || !incoming_.empty(); };
    if (is_stopping_) return;
    if (has_acted) {
      restart();
    } else if (outstanding() == 0) {
      // Not for news: the decode thread may have taken those over, unfinished, in a sweep of its
      // own before this thread is awake.
      changed_.wait(lock, [this] { return is_stopping_ || outstanding() != 0; });
      restart();
    } else if (Clock::now() - busy_since <= kSpin) {
      lock.unlock();
      std::this_thread::yield();
    } else if (changed_.wait_for(lock, sleep, has_news)) {
      restart();
    } else {
      sleep = std::min(sleep * 2, kSleepMax);
    }
  }
}

void Completer::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace sluice::server
