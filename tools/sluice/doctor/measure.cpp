#include "tools/sluice/doctor/measure.h"

#include "common/fd.h"
#include "common/format.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace sluice::tool {
namespace {

using nlohmann::json;

/// A server may take 30 s to start a worker and its driver.
constexpr int kSilenceMs = 40'000;

Trips trips_from(const json& j) {
  return {j.at("count"), j.at("min"), j.at("p50"), j.at("p99")};
}

void take(const json& line, Measured* out) {
  if (line.contains("session")) {
    out->session = line["session"];
    const json& error = out->session.at("error");
    if (error.is_string()) out->no_session = error;
  }
  if (line.contains("no_session") && out->no_session.empty()) out->no_session = line["no_session"];
  if (line.contains("round_trip_us")) out->round_trip = trips_from(line["round_trip_us"]);
  if (line.contains("synchronize_us")) out->synchronize = trips_from(line["synchronize_us"]);
  if (line.contains("launches")) {
    const json& j = line["launches"];
    out->launches = {j.at("count"), j.at("what"), j.at("posted_us"), j.at("done_us")};
  }
  if (line.contains("copy")) {
    const json& j = line["copy"];
    out->copies.push_back(
        {j.at("direction") == "to_device", j.at("bytes"), j.at("count"), j.at("gb_per_s")});
  }
  if (line.contains("path")) out->path = path_from_json(line["path"]);
  if (line.contains("not_measured")) out->not_measured.push_back(line["not_measured"]);
}

/// What the process says until it ends or falls silent; gives the step that it was in.
std::string listen(int fd, Measured* out, Progress& progress, bool* is_silent) {
  std::string step = "loading the client library", unread;
  for (;;) {
    pollfd p{fd, POLLIN, 0};
    const int ready = ::poll(&p, 1, kSilenceMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      *is_silent = true;
      return step;
    }
    char piece[4096];
    const ssize_t got = ::read(fd, piece, sizeof piece);
    if (got <= 0) return step;
    unread.append(piece, static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = unread.find('\n')) != std::string::npos;) {
      const json line = json::parse(unread.substr(0, end), nullptr, false);
      unread.erase(0, end + 1);
      if (!line.is_object()) continue;
      if (line.contains("begin")) {
        step = line["begin"];
        progress.show(step);
      }
      take(line, out);
    }
  }
}

void note_end(const std::string& step, bool is_silent, int status, Measured* out) {
  std::string why;
  if (is_silent)
    why = format("no answer within {} s", kSilenceMs / 1000);
  else if (WIFSIGNALED(status))
    why = format("the measuring process died of signal {}", WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0)
    why = format("the measuring process ended with status {}", WEXITSTATUS(status));
  if (why.empty()) return;
  if (out->session.is_null() && out->no_session.empty()) out->no_session = step + ": " + why;
  out->not_measured.push_back(step + ", and what comes after it: " + why);
}

}  // namespace

Measured measure(const Settings& settings, const std::string& library, Progress& progress) {
  Measured out;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    out.no_session = system_error("creating a pipe", errno).message;
    return out;
  }
  const Fd from_child(ends[0]);
  Fd to_parent(ends[1]);
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid < 0) {
    out.no_session = system_error("starting a process", errno).message;
    return out;
  }
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    export_to_environment(settings);
    // What would be warned of is in the report.
    if (settings.log.empty()) ::setenv("SLUICE_LOG", "off", 1);
    for (const char* name : {"SLUICE_STATS", "SLUICE_STATS_FILE", "CUDA_VISIBLE_DEVICES"})
      ::unsetenv(name);
    measure_here(library, to_parent.get());
  }
  to_parent.reset();
  bool is_silent = false;
  const std::string step = listen(from_child.get(), &out, progress, &is_silent);
  progress.clear();
  if (is_silent) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  note_end(step, is_silent, status, &out);
  return out;
}

json to_json(const std::optional<Trips>& trips) {
  if (!trips) return nullptr;
  return {{"count", trips->count},
          {"min", trips->min_us},
          {"p50", trips->p50_us},
          {"p99", trips->p99_us}};
}

json to_json(const std::optional<Launches>& launches) {
  if (!launches) return nullptr;
  return {{"count", launches->count},
          {"what", launches->what},
          {"posted_us", launches->posted_us},
          {"done_us", launches->done_us}};
}

json to_json(const CopyRate& rate) {
  return {{"direction", rate.is_to_device ? "to_device" : "to_host"},
          {"bytes", rate.bytes},
          {"count", rate.count},
          {"gb_per_s", rate.gb_per_s}};
}

}  // namespace sluice::tool
