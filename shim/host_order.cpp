#include "shim/host_order.h"

#include "shim/process.h"

#include <algorithm>

namespace sluice::shim {
namespace {

using Tokens = std::vector<std::uint64_t>;

void prune(Tokens& tokens) {
  std::erase_if(tokens,
                [](std::uint64_t token) { return !session().host_functions().is_pending(token); });
}

void add(Tokens& tokens, const Tokens& more) {
  for (const std::uint64_t token : more)
    if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
}

bool is_blocking(const Stream& stream) {
  return (stream.flags & CU_STREAM_NON_BLOCKING) == 0;
}

/// Own ones, and those that the legacy stream's barriers put before.
Tokens preceding(Stream& stream) {
  Tokens tokens;
  {
    std::lock_guard lock(stream.mutex);
    prune(stream.host_functions);
    tokens = stream.host_functions;
  }
  if (!is_blocking(stream)) return tokens;
  Stream& legacy = stream.context->legacy;
  Tokens& others = stream.id == 0 ? stream.context->blocking_functions : legacy.host_functions;
  std::lock_guard lock(legacy.mutex);
  prune(others);
  add(tokens, others);
  return tokens;
}

}  // namespace

void note_host_function(Stream& stream, std::uint64_t token) {
  {
    std::lock_guard lock(stream.mutex);
    prune(stream.host_functions);
    stream.host_functions.push_back(token);
  }
  // The legacy stream's next command comes after those of all blocking streams.
  if (stream.id == 0 || !is_blocking(stream)) return;
  std::lock_guard lock(stream.context->legacy.mutex);
  prune(stream.context->blocking_functions);
  stream.context->blocking_functions.push_back(token);
}

void pass_on_host_functions(Stream& stream, Event& event) {
  if (session().host_functions().pending() == 0) return;
  Tokens tokens = preceding(stream);
  std::lock_guard lock(event.mutex);
  event.host_functions = std::move(tokens);
}

void join_host_functions(Stream& stream, Event& event) {
  if (session().host_functions().pending() == 0) return;
  Tokens tokens;
  {
    std::lock_guard lock(event.mutex);
    prune(event.host_functions);
    tokens = event.host_functions;
  }
  std::lock_guard lock(stream.mutex);
  add(stream.host_functions, tokens);
}

CUresult settle_host_functions(Stream& stream) {
  for (const std::uint64_t token : preceding(stream))
    if (const CUresult lost = session().host_functions().wait(token)) return lost;
  return CUDA_SUCCESS;
}

}  // namespace sluice::shim
