// Keeps what programs rely on: once a copy from pageable memory (or a synchronous one) has
// returned, its data is there for whatever is issued next, in any stream and context. A genuine
// driver gives that nearly always, since such a copy hardly ever returns before it is done; here it
// returns when the data was sent. So the streams that are used later wait for it, not the client.
#pragma once

#include "driver/driver_table.h"
#include "server/worker/streams.h"

#include <cuda.h>

#include <cstdint>
#include <map>
#include <vector>

namespace sluice::server {

/// Confined to the decode thread.
class UploadOrder {
 public:
  explicit UploadOrder(const DriverTable& driver) : driver_(driver) {}

  /// An upload was issued in the stream, whose context is current.
  void note(const StreamRef& stream);
  /// Something is about to be issued in `next`; `current` is the current context, and again on
  /// return. `is_upload`: another upload. `is_only_stream`: no other is known.
  void before_work(const StreamRef& next, CUcontext current, bool is_upload, bool is_only_stream);
  /// The context is about to go, and its events with it.
  void forget(CUcontext context);

 private:
  struct Upload {
    StreamRef stream;
    std::uint64_t issued = 0;        ///< position in the stream
    CUevent event = nullptr;         ///< recorded behind it, as late as possible
    std::vector<StreamRef> ordered;  ///< streams that wait for it already
  };
  [[nodiscard]] bool mark(Upload& upload, CUcontext current);
  void drop_finished();

  const DriverTable& driver_;
  std::vector<Upload> pending_;
  std::map<CUcontext, std::vector<CUevent>> idle_;
};

}  // namespace sluice::server
