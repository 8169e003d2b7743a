#include "server/worker/upload_order.h"

#include "common/log.h"

#include <algorithm>

namespace sluice::server {

void UploadOrder::note(const StreamRef& stream) {
  if (!pending_.empty() && pending_.back().stream == stream && pending_.back().event == nullptr) {
    pending_.back().issued = stream->issued;
    return;
  }
  pending_.push_back({stream, stream->issued, nullptr, {}});
}

void UploadOrder::drop_finished() {
  std::erase_if(pending_, [&](const Upload& upload) {
    if (upload.stream->completed.load(std::memory_order_acquire) < upload.issued) return false;
    if (upload.event != nullptr) idle_[upload.stream->context].push_back(upload.event);
    return true;
  });
}

/// Records the event behind the upload. False if the driver cannot.
bool UploadOrder::mark(Upload& upload, CUcontext current) {
  if (upload.event != nullptr) return true;
  const CUcontext context = upload.stream->context;
  if (context != current) driver_.cuCtxSetCurrent(context);
  auto& idle = idle_[context];
  CUevent event = nullptr;
  CUresult result = CUDA_SUCCESS;
  if (idle.empty()) {
    result = driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  } else {
    event = idle.back();
    idle.pop_back();
  }
  if (result == CUDA_SUCCESS) {
    result = driver_.cuEventRecord(event, upload.stream->stream);
    if (result == CUDA_SUCCESS)
      upload.event = event;
    else
      idle.push_back(event);
  }
  if (context != current) driver_.cuCtxSetCurrent(current);
  return result == CUDA_SUCCESS;
}

void UploadOrder::before_work(const StreamRef& next, CUcontext current, bool is_upload,
                              bool is_only_stream) {
  if (pending_.empty() || next->captures != 0) return;
  drop_finished();
  for (Upload& upload : pending_) {
    if (upload.stream->captures != 0) continue;
    if (upload.stream == next) {
      // Recorded before what follows in the stream, so that others wait for the upload only.
      if (!is_upload && !is_only_stream) static_cast<void>(mark(upload, current));
      continue;
    }
    if (std::find(upload.ordered.begin(), upload.ordered.end(), next) != upload.ordered.end())
      continue;
    if (mark(upload, current) &&
        driver_.cuStreamWaitEvent(next->stream, upload.event, 0) == CUDA_SUCCESS)
      upload.ordered.push_back(next);
    else
      SLUICE_LOG_WARN("driver", "a stream cannot be made to wait for an upload in another one");
  }
}

void UploadOrder::forget(CUcontext context) {
  std::erase_if(pending_, [&](const Upload& upload) { return upload.stream->context == context; });
  for (Upload& upload : pending_)
    std::erase_if(upload.ordered, [&](const StreamRef& s) { return s->context == context; });
  const auto found = idle_.find(context);
  if (found == idle_.end()) return;
  for (const CUevent event : found->second) driver_.cuEventDestroy_v2(event);
  idle_.erase(found);
}

}  // namespace sluice::server
