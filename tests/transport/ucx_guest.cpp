// Loads UCX as the shim does, uses it once, and prints what of the process it found changed: one
// line each, nothing if all is as before. Its exit status: 0 loaded, 1 not (the reason is printed).
//
// usage: ucx_guest PLUGIN
//        ucx_guest --careless            as a program that just loads UCX: shows that this one sees
//        ucx_guest --serve PLUGIN HOST   one end of a channel for a peer that kills it: port,
//        staging
//                                        memory and life line are on descriptor 0
#include "transport/ucx/library.h"

#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>

namespace {

struct State {
  std::map<int, struct sigaction> handlers;
  std::string mmap_entry, munmap_entry, environment;
  char** environment_array = nullptr;
  int thread_count = 0;
};

std::string entry_of(const char* name) {
  const auto* code = static_cast<const char*>(::dlsym(RTLD_DEFAULT, name));
  return {code, 16};
}

State look() {
  State state;
  for (int signal = 1; signal < SIGRTMAX; ++signal)
    ::sigaction(signal, nullptr, &state.handlers[signal]);
  state.mmap_entry = entry_of("mmap");
  state.munmap_entry = entry_of("munmap");
  for (char** entry = environ; *entry != nullptr; ++entry)
    state.environment += std::string(*entry) + "\n";
  state.environment_array = environ;
  DIR* tasks = ::opendir("/proc/self/task");
  while (const dirent* task = ::readdir(tasks)) state.thread_count += task->d_name[0] != '.';
  ::closedir(tasks);
  return state;
}

void compare(const State& before, const State& after, int threads_allowed) {
  for (const auto& [signal, handler] : before.handlers)
    if (after.handlers.at(signal).sa_handler != handler.sa_handler)
      std::printf("the handler of signal %d was replaced\n", signal);
  if (before.mmap_entry != after.mmap_entry) std::printf("mmap was rewritten\n");
  if (before.munmap_entry != after.munmap_entry) std::printf("munmap was rewritten\n");
  if (before.environment != after.environment ||
      before.environment_array != after.environment_array)
    std::printf("the environment changed\n");
  if (after.thread_count > before.thread_count + threads_allowed)
    std::printf("%d threads instead of %d\n", after.thread_count, before.thread_count);
}

/// SIGKILL, SIGSTOP and the two of glibc's own.
constexpr std::uint64_t kNeverBlocked = 1ULL << 8 | 1ULL << 18 | 1ULL << 31 | 1ULL << 32;

/// Signals of the application must not go to a thread that is not its own.
void check_masks() {
  DIR* tasks = ::opendir("/proc/self/task");
  while (const dirent* task = ::readdir(tasks)) {
    if (task->d_name[0] == '.' || std::stoi(task->d_name) == ::getpid()) continue;
    std::ifstream status("/proc/self/task/" + std::string(task->d_name) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.rfind("SigBlk:", 0) == 0 &&
          (std::stoull(line.substr(8), nullptr, 16) | kNeverBlocked) != UINT64_MAX)
        std::printf("a thread takes signals: %s\n", line.c_str());
  }
  ::closedir(tasks);
}

int serve(const char* path, const char* host) {
  using namespace sluice;
  const Fd life_line(0);
  const auto far = transport::Clock::now() + std::chrono::seconds(60);
  const auto plugin = transport::ucx::load_from(path);
  if (!plugin) return 1;
  const auto listener = (*plugin)->listen(host, {});
  if (!listener) return 1;
  const auto offer = (*listener)->offer_staging();
  if (!offer) return 1;
  ::dprintf(0, "%05u%016llx%04zu", (*listener)->port(),
            static_cast<unsigned long long>(offer->address), offer->key.size());
  if (::write(0, offer->key.data(), offer->key.size()) < 0) return 1;
  char byte = 0;
  if (!(*listener)->serve_until_readable(0, far) || ::read(0, &byte, 1) != 1) return 1;
  const auto channel = (*listener)->take(life_line, true);
  if (!channel || (*channel)->reserve(8).size() != 8) return 1;
  (*channel)->commit(8, transport::FlushHint::kNow);
  while ((*channel)->wait(far).value_or(false)) {
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  namespace ucx = sluice::transport::ucx;
  if (argc == 4 && std::string(argv[1]) == "--serve") return serve(argv[2], argv[3]);
  if (argc != 2) return 2;
  // A sanitizer's own thread comes with the program's first.
  std::thread([] {}).join();
  const State before = look();
  if (std::string(argv[1]) == "--careless") {
    if (::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL) != nullptr) compare(before, look(), 0);
    return 0;
  }
  auto plugin = ucx::load_from(argv[1]);
  compare(before, look(), 0);
  if (!plugin) {
    std::printf("%s\n", plugin.error().message.c_str());
    return 1;
  }
  auto listener = (*plugin)->listen("127.0.0.1", ucx::Token{});
  if (!listener) std::printf("%s\n", listener.error().message.c_str());
  compare(before, look(), 1);
  check_masks();
  return 0;
}
