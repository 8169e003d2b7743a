// Getting work into streams and waiting for it.
#include "softgpu/api/submit.h"

#include "softgpu/api/graph.h"
#include "softgpu/api/memory_pool.h"
#include "softgpu/api/ranges.h"
#include "softgpu/api/strict.h"
#include "softgpu/exec/turn.h"

#include <algorithm>
#include <optional>

namespace sluice::softgpu {
namespace {

bool is_sticky(CUresult result) {
  switch (static_cast<int>(result)) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return true;
    default:
      return false;
  }
}

/// The legacy stream would have to wait for them. Called with the context's mutex held.
bool invalidate_blocking_captures(Context& context) {
  bool is_any = false;
  for (const auto& weak : context.streams) {
    const auto other = weak.lock();
    if (other == nullptr || !other->is_blocking() || other->capture == nullptr) continue;
    other->capture->is_invalid = true;
    is_any = true;
  }
  return is_any;
}

/// Called with the context's mutex held.
CUresult start(const std::shared_ptr<Stream>& stream, std::function<CUresult()> work,
               OperationPtr* out, bool always, int device = -1) {
  std::vector<OperationPtr> before;
  SOFTGPU_CHECK(what_comes_before(stream, &before));
  auto operation = std::make_shared<Operation>();
  operation->work = in_context(stream->context, std::move(work), always);
  operation->device = device;
  stream->last = operation;
  schedule(operation, before);
  if (out != nullptr) *out = operation;
  return CUDA_SUCCESS;
}

}  // namespace

std::function<CUresult()> in_context(std::shared_ptr<Context> context,
                                     std::function<CUresult()> work, bool always) {
  // shared: the context must outlive the work even if the program destroys it meanwhile
  return [work = std::move(work), context = std::move(context), always]() -> CUresult {
    if ((context->sticky != CUDA_SUCCESS || context->is_dead) && !always) return context->sticky;
    const CUresult result = work();
    CUresult none = CUDA_SUCCESS;
    if (is_sticky(result)) context->sticky.compare_exchange_strong(none, result);
    return result;
  };
}

CUresult what_comes_before(const std::shared_ptr<Stream>& stream,
                           std::vector<OperationPtr>* before) {
  Context& context = *stream->context;
  if (context.legacy == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (stream == context.legacy && invalidate_blocking_captures(context))
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  before->push_back(stream->last);
  if (stream == context.legacy) {
    std::erase_if(context.streams, [](const std::weak_ptr<Stream>& s) { return s.expired(); });
    for (const auto& weak : context.streams)
      if (const auto other = weak.lock(); other != nullptr && other->is_blocking())
        before->push_back(other->last);
  } else if (stream->is_blocking()) {
    before->push_back(context.legacy->last);
  }
  return CUDA_SUCCESS;
}

CUresult submit(const std::shared_ptr<Stream>& stream, std::function<CUresult()> work,
                OperationPtr* out, bool always) {
  const std::lock_guard lock(stream->context->mutex);
  if (stream->capture != nullptr) {
    stream->capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return start(stream, std::move(work), out, always);
}

int computes_on(const Work& work, const Context& context) {
  const auto is_on_device = [](const std::byte* p) {
    return is_device_address(reinterpret_cast<CUdeviceptr>(p));
  };
  const auto* copy = std::get_if<CopyWork>(&work);
  const bool computes =
      std::holds_alternative<KernelWork>(work) || std::holds_alternative<FillWork>(work) ||
      (copy != nullptr && is_on_device(copy->box.from) && is_on_device(copy->box.to));
  return computes ? context.device->ordinal : -1;
}

CUresult run_work(const Work& work, const Context& context) {
  // A kernel takes its turns block by block, all else whole.
  if (const auto* kernel = std::get_if<KernelWork>(&work)) return run(*kernel, context);
  std::optional<Turn> turn;
  const std::function<bool()> stops = [&] { return context.is_cancelled->load(); };
  if (const int device = computes_on(work, context); device >= 0) {
    turn.emplace(static_cast<unsigned>(device), stops);
    if (!turn->has_begun()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  return std::visit(
      [&](const auto& w) -> CUresult {
        if constexpr (std::is_same_v<std::decay_t<decltype(w)>, KernelWork>)
          return run(w, context);
        else
          return run(w);
      },
      work);
}

CUresult submit_work(const std::shared_ptr<Stream>& stream, Work work, OperationPtr* out) {
  const std::lock_guard lock(stream->context->mutex);
  if (stream->capture == nullptr) {
    const int device = computes_on(work, *stream->context);
    return start(
        stream,
        [work = std::move(work), context = stream->context.get()] {
          return run_work(work, *context);
        },
        out, false, device);
  }
  if (stream->capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  stream->tail = {stream->capture->graph->add(std::move(work), stream->tail)};
  return CUDA_SUCCESS;
}

std::vector<OperationPtr> pending(const std::shared_ptr<Stream>& stream) {
  Context& context = *stream->context;
  const std::lock_guard lock(context.mutex);
  std::vector<OperationPtr> out = {stream->last};
  if (stream == context.legacy)
    for (const auto& weak : context.streams)
      if (const auto other = weak.lock(); other != nullptr && other->is_blocking())
        out.push_back(other->last);
  return out;
}

std::vector<OperationPtr> pending(Context& context) {
  const std::lock_guard lock(context.mutex);
  std::vector<OperationPtr> out;
  if (context.legacy != nullptr) out.push_back(context.legacy->last);
  for (const auto& weak : context.streams)
    if (const auto stream = weak.lock()) out.push_back(stream->last);
  return out;
}

bool is_capturing(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(stream->context->mutex);
  return stream->capture != nullptr;
}

CUresult refuse_in_capture(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(stream->context->mutex);
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  stream->capture->is_invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult wait_all(Context& context, const std::vector<OperationPtr>& operations) {
  for (const OperationPtr& operation : operations) wait_for(operation);
  context.services->flush();  // CUDA prints what kernels printed when the host synchronises
  trim_pools();
  return context.sticky;
}

}  // namespace sluice::softgpu
