#include "tools/sluicectl/screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace sluice::tool {
namespace {

volatile sig_atomic_t g_is_over = 0;
void end(int) {
  g_is_over = 1;
}

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

std::string cut(const std::string& text, unsigned lines, unsigned columns) {
  std::string out;
  unsigned line = 0;
  unsigned column = 0;
  for (const char c : text) {
    if (c == '\n') {
      if (++line == lines) return out;
      column = 0;
      out += c;
      continue;
    }
    const bool is_inside_character = (static_cast<unsigned char>(c) & 0xC0) == 0x80;
    if (!is_inside_character) ++column;
    if (column <= columns) out += c;
  }
  return out;
}

Screen::Screen() : is_terminal_(::isatty(STDOUT_FILENO) == 1) {
  struct sigaction action {};
  action.sa_handler = &end;
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    ::sigaction(signal, &action, nullptr);
    ::sigaddset(&ends, signal);
  }
  // They come while rest() waits and never just before.
  ::sigprocmask(SIG_BLOCK, &ends, &mask_);
  if (!is_terminal_) return;
  has_keys_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
  if (has_keys_) {
    termios quiet = before_;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    quiet.c_cc[VSUSP] = _POSIX_VDISABLE;  // a shell would get the second screen
    ::tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
  }
  put("\x1b[?1049h\x1b[?25l");
}

Screen::~Screen() {
  if (!is_terminal_) return;
  put("\x1b[?25h\x1b[?1049l");
  if (has_keys_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

void Screen::draw(const std::string& text) const {
  if (!is_terminal_) return put(text + "\n");
  winsize size{};
  const bool is_known =
      ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
  put("\x1b[H\x1b[2J" + cut(text, is_known ? size.ws_row : 24u, is_known ? size.ws_col : 80u));
}

bool Screen::rest(std::chrono::milliseconds time) const {
  const auto end = std::chrono::steady_clock::now() + time;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (g_is_over != 0) return false;
    if (left.count() <= 0) return true;
    pollfd keys{has_keys_ ? STDIN_FILENO : -1, POLLIN, 0};
    const timespec wait = {left.count() / 1000, left.count() % 1000 * 1'000'000};
    if (::ppoll(&keys, 1, &wait, &mask_) <= 0) continue;
    char key = 'q';  // of a terminal that is gone
    if (::read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q') return false;
  }
}

}  // namespace sluice::tool
