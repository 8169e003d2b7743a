// A thread that is joined when it goes out of scope. Not std::jthread: under AddressSanitizer g++
// 12 reports that one's stop token as maybe uninitialised, which -Werror makes an error.
#pragma once

#include <thread>
#include <utility>

namespace sluice {

class JoiningThread {
 public:
  template <class Body>
  explicit JoiningThread(Body&& body) : thread_(std::forward<Body>(body)) {}
  ~JoiningThread() { thread_.join(); }
  JoiningThread(const JoiningThread&) = delete;
  JoiningThread& operator=(const JoiningThread&) = delete;

 private:
  std::thread thread_;
};

}  // namespace sluice
