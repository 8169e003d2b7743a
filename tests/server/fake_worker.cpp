// A sluice-worker without CUDA for the broker's tests. What it does wrong is the first part of its
// tenant's name ("failing", "deaf.2" ...); any other tenant gets a worker that behaves: it obeys
// one-letter commands on the data connection and answers each with one byte.
//   'c' u64 bytes: charge device 0; answers '1' or '0'     'r': report; answers 'r'
//   'm' u64 bytes: the same, for a module   'o' u64 bytes: so much is overhead now; answers 'o'
//   'l' u64 bytes: gives back what it was never charged for
//   'k' u64 bytes: the client keeps so much of what was charged, and gives it back when it is asked
//   'q': from now on the client does not answer when it is asked
//   'p': a call is pending from now on, and reported so                    'x': dies
// A connection that replaces a lane is told the lane's number.
#include "server/link.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

namespace {

using namespace sluice;
using namespace sluice::server;

constexpr int kReportMs = 50;
link::Stats g_stats;
bool g_is_wary = false, g_is_hoarding = false, g_is_quiet = false;
std::uint64_t g_kept_bytes = 0;

void say(const link::Message& message) {
  if (!link::send_message(link::kWorkerLinkFd, message)) ::_exit(1);
}

[[noreturn]] void sleep_for_ever() {
  for (;;) ::pause();
}

link::Ready ready() {
  link::Ready out;
  out.driver_version = 13000;
  wire::DeviceRecord device;
  device.name = "a fake device";
  device.total_bytes = 1ull << 30;
  out.devices = {device};
  return out;
}

/// Returns on the descriptor of the data connection, or ends.
Fd await_data() {
  auto received = link::receive_message(link::kWorkerLinkFd);
  if (!received || !std::holds_alternative<link::AttachData>(received->message)) ::_exit(0);
  // Of a tenant "wary" the first that comes is a stranger.
  const auto& attach = std::get<link::AttachData>(received->message);
  if (attach.is_encrypted && std::exchange(g_is_wary, false)) {
    received->passed.reset();
    return await_data();
  }
  if (attach.is_encrypted) say(link::DataReady{attach.is_resumable});
  return std::move(received->passed);
}

bool read_all(int fd, void* to, std::size_t bytes) {
  return ::recv(fd, to, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

void give_back() {
  if (g_is_quiet) return;
  if (g_kept_bytes > 0) say(link::Refund{0, std::exchange(g_kept_bytes, 0)});
  say(link::RecallDone{});
}

bool charge(std::uint64_t bytes, MemoryKind kind) {
  say(link::Charge{0, bytes, kind});
  for (;;) {
    auto answer = link::receive_message(link::kWorkerLinkFd);
    if (!answer) ::_exit(0);
    if (std::holds_alternative<link::Recall>(answer->message)) give_back();
    if (const auto* found = std::get_if<link::Answer>(&answer->message)) return found->is_granted;
  }
}

void obey(int data, char command) {
  char answer = command;
  ++g_stats.calls;
  if (command == 'x') ::raise(SIGKILL);
  if (command == 'p') g_stats.pending_calls = 1;
  if (command == 'q') g_is_quiet = true;
  if (command == 'k') {
    if (!read_all(data, &g_kept_bytes, sizeof g_kept_bytes)) ::_exit(0);
    say(link::Spare{0, g_kept_bytes});
  }
  if (std::strchr("cmol", command) != nullptr) {
    std::uint64_t bytes = 0;
    if (!read_all(data, &bytes, sizeof bytes)) ::_exit(0);
    if (command == 'o') say(link::Measured{0, bytes});
    if (command == 'l') say(link::Refund{0, bytes, MemoryKind::kData});
    if (command == 'c') answer = charge(bytes, MemoryKind::kData) ? '1' : '0';
    if (command == 'm') answer = charge(bytes, MemoryKind::kModule) ? '1' : '0';
  }
  say(g_stats);
  static_cast<void>(!::send(data, &answer, 1, MSG_NOSIGNAL));
}

/// The proof of an encrypted connection is one letter here: 'k'. Of a tenant "hoarding" none is
/// ever acknowledged. A lane is told which one it is.
void take(const link::ResumeData& resume, Fd passed, Fd& data) {
  if (resume.is_encrypted) {
    if (g_is_hoarding) return;
    say(link::ResumeTaken{});
    char proof = 0;
    if (!read_all(passed.get(), &proof, 1) || proof != 'k') return;
  }
  if (resume.lane == 0) return void(data = std::move(passed));
  const char lane = static_cast<char>('0' + resume.lane);
  static_cast<void>(!::send(passed.get(), &lane, 1, MSG_NOSIGNAL));
}

[[noreturn]] void behave() {
  Fd data = await_data();
  for (;;) {
    pollfd wanted[] = {{data.get(), POLLIN, 0}, {link::kWorkerLinkFd, POLLIN, 0}};
    if (::poll(wanted, 2, kReportMs) == 0 && g_stats.pending_calls > 0) say(g_stats);
    if (wanted[1].revents != 0) {
      auto received = link::receive_message(link::kWorkerLinkFd);
      if (!received) ::_exit(0);
      if (const auto* resume = std::get_if<link::ResumeData>(&received->message)) {
        take(*resume, std::move(received->passed), data);
        continue;
      }
      if (std::holds_alternative<link::Recall>(received->message)) give_back();
      if (std::holds_alternative<link::Stop>(received->message)) {
        g_stats.calls = 4711;  // what a test recognises the last report by
        say(g_stats);
        ::_exit(0);
      }
    }
    if (wanted[0].revents == 0) continue;
    char command = 0;
    if (!read_all(data.get(), &command, 1)) {
      say(g_stats);
      ::_exit(0);
    }
    obey(data.get(), command);
  }
}

}  // namespace

int main() {
  ::signal(SIGPIPE, SIG_IGN);
  auto received = link::receive_message(link::kWorkerLinkFd);
  while (received && std::holds_alternative<link::TurnPart>(received->message))
    received = link::receive_message(link::kWorkerLinkFd);
  if (!received || !std::holds_alternative<link::Start>(received->message)) return 2;
  const auto start = std::get<link::Start>(received->message);
  const std::string kind = start.tenant.substr(0, start.tenant.find('.'));
  if (kind == "failing") {
    say(link::Failed{"no device is plugged in"});
    sleep_for_ever();  // the broker must not count on its end
  }
  if (kind == "dying") return 1;
  if (kind == "mute") sleep_for_ever();
  if (kind == "babbling") {
    say(ready());
    static_cast<void>(!::send(link::kWorkerLinkFd, "garbage!", 8, 0));
    sleep_for_ever();
  }
  g_is_wary = kind == "wary";
  g_is_hoarding = kind == "hoarding";
  if (kind == "deaf") {
    say(ready());
    for (;;) say(link::QueryMemory{0});
  }
  say(ready());
  if (kind == "endless") {
    const Fd data = await_data();
    sleep_for_ever();
  }
  behave();
}
