// One stretch of linear memory to another: what every kind of copy is made of.
#pragma once

#include "shim/api.h"

#include <cstddef>

namespace sluice::shim {

enum class CopyMode { kSynchronous, kAsynchronous };

/// Each checks its bounds against the address map, counts the stream as used and returns as CUDA's
/// function of that direction does. Zero bytes are nothing.
CUresult host_to_device(CUdeviceptr destination, const void* source, std::size_t bytes,
                        CUstream handle, CopyMode mode);
CUresult device_to_host(void* destination, CUdeviceptr source, std::size_t bytes, CUstream handle,
                        CopyMode mode);
CUresult device_to_device(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes,
                          CUstream handle);
CUresult host_to_host(void* destination, const void* source, std::size_t bytes, CUstream handle,
                      CopyMode mode);

/// The same in a stream that captures: a node that copies when the graph runs.
CUresult capture_copy(CUdeviceptr device, void* host, std::size_t bytes, Stream& stream,
                      GraphNode::Kind kind);
CUresult capture_function(CUhostFn run, void* data, Stream& stream);
/// Ends the capture that the stream takes part in, if it does, without a graph.
void abandon_capture(Stream& stream);

/// Memory that the map does not know is the host's if this process has it; otherwise the driver
/// shall judge it.
bool is_device_memory(CUdeviceptr address);

}  // namespace sluice::shim
