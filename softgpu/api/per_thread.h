// The _ptsz and _ptds entry points run the ordinary ones with stream 0 meaning the calling thread's
// own stream.
#pragma once

namespace sluice::softgpu {

class PerThreadDefaultStream {
 public:
  PerThreadDefaultStream() noexcept;
  ~PerThreadDefaultStream();
  PerThreadDefaultStream(const PerThreadDefaultStream&) = delete;
  PerThreadDefaultStream& operator=(const PerThreadDefaultStream&) = delete;
  static bool is_active() noexcept;
};

}  // namespace sluice::softgpu
