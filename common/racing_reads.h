// Reads of memory that others may be writing at the same time, by intent: the program's own memory
// is compared while its threads, or a device, use it. A torn value is sent again at the next look.
#pragma once

#ifdef __SANITIZE_THREAD__
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace sluice {

/// ThreadSanitizer does not judge the reads of this thread while one lives.
class RacingReads {
 public:
#ifdef __SANITIZE_THREAD__
  RacingReads() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  }
  ~RacingReads() {
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  RacingReads() {}
  ~RacingReads() {}
#endif
  RacingReads(const RacingReads&) = delete;
  RacingReads& operator=(const RacingReads&) = delete;
};

}  // namespace sluice
