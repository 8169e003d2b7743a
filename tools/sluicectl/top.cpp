// `sluicectl top`: who uses how much, from the difference of two looks.
#include "common/duration.h"
#include "common/format.h"
#include "common/size.h"
#include "server/config/kinds_text.h"
#include "tools/sluicectl/commands.h"
#include "tools/sluicectl/screen.h"
#include "tools/sluicectl/views.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <thread>

namespace sluice::tool {
namespace {

using Clock = std::chrono::steady_clock;

/// Nobody looks at an empty screen for the whole of a long interval.
constexpr std::chrono::milliseconds kFirstWaitMax{1000};

struct Look {
  Clock::time_point when;
  server::control::ServerInfo server;
  std::vector<server::control::SessionInfo> sessions;
};

Result<Look> look(server::control::Client& client) {
  Look out;
  SLUICE_TRY(out.server, client.server());
  SLUICE_TRY(out.sessions, client.sessions());
  out.when = Clock::now();
  return out;
}

/// Of one session between two looks; per second.
struct Rates {
  double gpu_percent = 0, calls = 0, bytes = 0;
};

Rates rates_of(const server::control::SessionInfo& now, const Look& before, double seconds) {
  const auto old = std::find_if(before.sessions.begin(), before.sessions.end(),
                                [&](const auto& s) { return s.id == now.id; });
  const server::control::SessionInfo none;
  const auto& then = old != before.sessions.end() ? *old : none;
  const auto rate = [seconds](std::uint64_t later, std::uint64_t earlier) {
    return later > earlier ? static_cast<double>(later - earlier) / seconds : 0.0;
  };
  return {rate(now.gpu_us, then.gpu_us) / 1e4, rate(now.calls, then.calls),
          rate(now.bytes_in + now.bytes_out, then.bytes_in + then.bytes_out)};
}

std::string screen_of(const Look& now, const std::vector<Rates>& rates) {
  std::string out =
      format("{} up {}, {} of {} sessions\n", now.server.node,
             duration_text(std::chrono::milliseconds(now.server.uptime_ms / 1000 * 1000)),
             now.server.sessions, now.server.max_sessions);
  for (std::size_t i = 0; i < now.server.devices.size(); ++i) {
    const auto& device = now.server.devices[i];
    out += format("device {} {}: {} of {} in use, and {} overhead\n", i, device.name,
                  size_text(device.used_bytes), size_text(device.total_bytes),
                  size_text(device.overhead_bytes));
  }
  Table table({"SESSION", "TENANT", "STATE", "GPU %", "MEMORY", "CALLS/s", "DATA/s", "CLIENT",
               "PROGRAM", "BY KIND"});
  for (std::size_t i = 0; i < now.sessions.size(); ++i) {
    const auto& s = now.sessions[i];
    table.add({std::to_string(s.id), s.tenant, s.state, format("{:.1f}", rates[i].gpu_percent),
               size_text(s.memory_bytes), format("{:.0f}", rates[i].calls),
               size_text(static_cast<std::uint64_t>(rates[i].bytes)),
               format("{}:{}", s.host, s.client_pid), s.program,
               config::kinds_text(s.memory_kinds)});
  }
  return out + "\n" + table.text();
}

nlohmann::json json_of_look(const Look& now, const std::vector<Rates>& rates) {
  nlohmann::json sessions = nlohmann::json::array();
  for (std::size_t i = 0; i < now.sessions.size(); ++i) {
    nlohmann::json one = json_of(now.sessions[i]);
    one["gpu_percent"] = rates[i].gpu_percent;
    one["calls_per_second"] = rates[i].calls;
    one["bytes_per_second"] = rates[i].bytes;
    sessions.push_back(std::move(one));
  }
  return {{"server", json_of(now.server)}, {"sessions", sessions}};
}

}  // namespace

int top(Session session, std::chrono::milliseconds interval, bool is_once) {
  auto before = look(session.client);
  if (!before) return refuse(before.error());
  Error lost;
  const bool is_shown = [&] {
    std::optional<Screen> screen;
    if (!session.wants_json && !is_once) screen.emplace();
    auto wait = screen ? std::min(interval, kFirstWaitMax) : interval;
    for (;; wait = interval) {
      if (!screen) {
        std::this_thread::sleep_for(wait);
      } else if (!screen->rest(wait)) {
        return true;
      }
      auto now = look(session.client);
      if (!now) {
        lost = now.error();  // told when the terminal is itself again
        return false;
      }
      const double seconds = std::chrono::duration<double>(now->when - before->when).count();
      std::vector<Rates> rates;
      for (const auto& one : now->sessions) rates.push_back(rates_of(one, *before, seconds));
      if (session.wants_json) {
        print_json(json_of_look(*now, rates));
      } else if (screen) {
        screen->draw(screen_of(*now, rates));
      } else {
        std::printf("%s", screen_of(*now, rates).c_str());
      }
      if (is_once) return true;
      before = std::move(now);
    }
  }();
  return is_shown ? 0 : refuse(lost);
}

}  // namespace sluice::tool
