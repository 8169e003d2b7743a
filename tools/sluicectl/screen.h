// The terminal while `sluicectl top` runs: its second screen, without an echo of keys, redrawn in
// place and cut to its size. However the program ends (q, Ctrl-C, SIGTERM, an error), the terminal
// is as it was.
#pragma once

#include <signal.h>
#include <termios.h>

#include <chrono>
#include <string>

namespace sluice::tool {

/// At most one at a time.
class Screen {
 public:
  /// Takes the terminal over if stdout is one.
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  [[nodiscard]] bool is_terminal() const { return is_terminal_; }
  void draw(const std::string& text) const;
  /// Waits; false as soon as the user wants to end: q, Ctrl-C or SIGTERM.
  [[nodiscard]] bool rest(std::chrono::milliseconds time) const;

 private:
  bool is_terminal_ = false, has_keys_ = false;
  termios before_{};
  sigset_t mask_{};  ///< of signals, while rest() waits
};

/// The first lines and columns of a text, a character of UTF-8 being one column.
std::string cut(const std::string& text, unsigned lines, unsigned columns);

}  // namespace sluice::tool
