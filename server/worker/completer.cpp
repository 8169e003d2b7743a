#include "server/worker/completer.h"

#include <algorithm>
#include <chrono>

namespace sluice::server {
namespace {
using std::chrono::microseconds;
constexpr microseconds kSpin{50};
constexpr microseconds kSleepMin{20};
constexpr microseconds kSleepMax{250};
}  // namespace

CUresult Completer::record(CUcontext context, CUstream stream, CUevent* out) {
  *out = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(events_.begin(), events_.end(),
                                    [&](const auto& e) { return e.first == context; });
    if (found != events_.end()) {
      *out = found->second;
      *found = events_.back();
      events_.pop_back();
    }
  }
  if (*out == nullptr)
    if (const CUresult bad = driver_.cuEventCreate(out, CU_EVENT_DISABLE_TIMING)) return bad;
  return driver_.cuEventRecord(*out, stream);
}

void Completer::add(CUcontext context, const std::vector<CUstream>& streams, Kind kind,
                    Action action) {
  Item item;
  item.context = context;
  item.kind = kind;
  item.action = std::move(action);
  for (CUstream stream : streams) {
    CUevent event = nullptr;
    const CUresult result = record(context, stream, &event);
    if (event != nullptr) item.events.push_back(event);
    if (result != CUDA_SUCCESS && item.result == CUDA_SUCCESS) item.result = result;
  }
  if (item.result != CUDA_SUCCESS) item.is_ready = true;
  poll(item);
  if (item.is_ready && outstanding() == 0) return finish(item);
  count_.fetch_add(1, std::memory_order_acq_rel);
  const std::lock_guard lock(mutex_);
  incoming_.push_back(std::move(item));
  if (!thread_.joinable() && !is_stopping_) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
}

void Completer::poll(Item& item) {
  if (item.is_ready) return;
  for (CUevent event : item.events) {
    const CUresult result = driver_.cuEventQuery(event);
    if (result == CUDA_ERROR_NOT_READY) return;
    if (result != CUDA_SUCCESS && item.result == CUDA_SUCCESS) item.result = result;
  }
  item.is_ready = true;
}

void Completer::finish(Item& item) {
  item.action(item.result);
  const std::lock_guard lock(mutex_);
  if (std::find(dead_.begin(), dead_.end(), item.context) != dead_.end()) return;
  for (CUevent event : item.events) events_.emplace_back(item.context, event);
}

void Completer::forget(CUcontext context) {
  const std::lock_guard lock(mutex_);
  dead_.push_back(context);
  std::erase_if(events_, [&](const auto& e) { return e.first == context; });
}

void Completer::remember(CUcontext context) {
  const std::lock_guard lock(mutex_);
  std::erase(dead_, context);
}

bool Completer::sweep() {
  const std::lock_guard order(sweep_mutex_);
  {
    const std::lock_guard lock(mutex_);
    while (!incoming_.empty()) {
      items_.push_back(std::move(incoming_.front()));
      incoming_.pop_front();
    }
  }
  // Readiness from the youngest to the oldest: when an item is seen ready, every older item that it
  // implies is asked after it and is therefore seen ready as well.
  // Always set anew: an action may destroy a context, and the next one may have its address.
  const auto enter = [&](const Item& item) {
    if (item.context != nullptr) driver_.cuCtxSetCurrent(item.context);
  };
  for (auto item = items_.rbegin(); item != items_.rend(); ++item) {
    if (!item->is_ready) enter(*item);
    poll(*item);
  }
  const auto is_ready = [](const Item& item) { return item.is_ready; };
  if (std::none_of(items_.begin(), items_.end(), is_ready)) return false;
  for (const Kind kind : {Kind::kData, Kind::kAnswer})
    for (Item& item : items_)
      if (item.is_ready && item.kind == kind) {
        enter(item);
        finish(item);
      }
  const std::size_t before = items_.size();
  std::erase_if(items_, is_ready);
  flush_();
  count_.fetch_sub(before - items_.size(), std::memory_order_acq_rel);
  return true;
}

void Completer::run() {
  auto idle_since = std::chrono::steady_clock::now();
  microseconds sleep = kSleepMin;
  for (;;) {
    if (sweep()) {
      idle_since = std::chrono::steady_clock::now();
      sleep = kSleepMin;
      continue;
    }
    std::unique_lock lock(mutex_);
    if (is_stopping_) return;
    if (outstanding() == 0) {
      changed_.wait(lock, [&] { return is_stopping_ || !incoming_.empty(); });
      idle_since = std::chrono::steady_clock::now();
      sleep = kSleepMin;
    } else if (std::chrono::steady_clock::now() - idle_since > kSpin) {
      const bool has_news =
          changed_.wait_for(lock, sleep, [&] { return is_stopping_ || !incoming_.empty(); });
      sleep = has_news ? kSleepMin : std::min(sleep * 2, kSleepMax);
    } else {
      lock.unlock();
      std::this_thread::yield();
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
