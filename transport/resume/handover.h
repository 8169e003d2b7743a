// What the two ends of a resumable stream say to each other on a new connection before the bytes go
// on: the server's count (8 bytes), then the client's. The order matters: each side's count is
// final only when the other has stopped using the old connection, and the client has stopped
// before it asks.
#pragma once

#include "transport/resume/resumable_stream.h"

namespace sluice::transport {

/// The client's end; the stream is suspended. `next` is taken only on success. Err(kProtocol): it
/// can never be resumed; any other error: try again with another connection, and leave this one
/// open until then, for its end would look like the client's.
Status resume_from_client(ResumableStream& stream, std::unique_ptr<ByteStream>& next,
                          Deadline deadline);

/// The server's end. Waits for the client until it `is_superseded`: a connection is given up only
/// once it holds nothing that the client might count on.
Status resume_from_server(ResumableStream& stream, std::unique_ptr<ByteStream> next,
                          const std::atomic<bool>& is_superseded);

}  // namespace sluice::transport
