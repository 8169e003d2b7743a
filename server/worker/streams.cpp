#include "server/worker/streams.h"

#include <algorithm>

namespace sluice::server {
namespace {

StreamRef make_state(CUcontext context, CUstream stream) {
  auto state = std::make_shared<StreamState>();
  state->context = context;
  state->stream = stream;
  return state;
}

}  // namespace

void StreamTable::add(CUcontext context, CUstream stream, bool is_blocking) {
  const StreamRef& state = named_[stream] = make_state(context, stream);
  state->is_blocking = is_blocking;
}

void StreamTable::begin_capture(const StreamRef& state, CUstream origin) {
  if (state->captures != 0) return;
  state->captures = 1;
  state->capture_origin = origin;
  if (state->is_blocking) ++find(state->context, nullptr)->captures;
}

void StreamTable::end_capture(CUstream origin) {
  for (auto& [stream, state] : named_) {
    if (state->captures == 0 || state->capture_origin != origin) continue;
    state->captures = 0;
    state->capture_origin = nullptr;
    if (state->is_blocking) --find(state->context, nullptr)->captures;
  }
}

StreamRef StreamTable::find(CUcontext current, CUstream stream) {
  StreamRef& state = stream != nullptr ? named_[stream] : legacy_[current];
  if (state == nullptr) state = make_state(current, stream);
  return state;
}

void StreamTable::note_work(const StreamRef& state) {
  if (state->captures != 0) return;  // what is captured is not issued
  ++state->issued;
  if (state->is_listed) return;
  state->is_listed = true;
  busy_[state->context].push_back(state);
}

std::vector<StreamRef> StreamTable::busy(CUcontext context) {
  const auto found = busy_.find(context);
  if (found == busy_.end()) return {};
  std::erase_if(found->second, [](const StreamRef& state) {
    state->is_listed = state->is_busy();
    return !state->is_listed;
  });
  return found->second;
}

void StreamTable::retire(const StreamRef& state) {
  state->is_retired = true;
  retired_.push_back(state);
}

std::vector<StreamRef> StreamTable::take_finished() {
  std::vector<StreamRef> finished;
  std::erase_if(retired_, [&](const StreamRef& state) {
    if (state->is_busy()) return false;
    finished.push_back(state);
    return true;
  });
  for (const StreamRef& state : finished) named_.erase(state->stream);
  return finished;
}

void StreamTable::forget(CUcontext context) {
  std::erase_if(named_, [&](const auto& entry) { return entry.second->context == context; });
  std::erase_if(retired_, [&](const StreamRef& state) { return state->context == context; });
  legacy_.erase(context);
  busy_.erase(context);
}

}  // namespace sluice::server
