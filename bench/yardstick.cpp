#include "yardstick.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void send_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) std::abort();
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

std::size_t receive_some(int fd, std::span<std::byte> into) {
  const ssize_t got = ::recv(fd, into.data(), into.size(), 0);
  if (got <= 0) std::abort();
  return static_cast<std::size_t>(got);
}

void receive_all(int fd, std::span<std::byte> into) {
  while (!into.empty()) into = into.subspan(receive_some(fd, into));
}

}  // namespace

void raw_ping_pong(Ends ends, std::size_t bytes, std::span<double> round_us) {
  std::thread echo([&] {
    std::vector<std::byte> message(bytes);
    for (std::size_t i = 0; i < round_us.size(); ++i) {
      receive_all(ends.server, message);
      send_all(ends.server, message);
    }
  });
  std::vector<std::byte> message(bytes);
  for (double& round : round_us) {
    const auto start = Clock::now();
    send_all(ends.client, message);
    receive_all(ends.client, message);
    round = seconds_since(start) * 1e6;
  }
  echo.join();
}

double raw_commands_s(Ends ends, std::size_t bytes, std::size_t batch, std::size_t count) {
  std::thread receiver([&] {
    std::vector<std::byte> into(256 * 1024);
    for (std::size_t left = bytes * count; left > 0;) left -= receive_some(ends.server, into);
    send_all(ends.server, std::span(into).first(1));
  });
  std::vector<std::byte> record(bytes), group(bytes * batch);
  const auto start = Clock::now();
  for (std::size_t done = 0; done < count; done += batch) {
    for (std::size_t i = 0; i < batch; ++i)
      std::memcpy(group.data() + i * bytes, record.data(), bytes);
    send_all(ends.client, group);
  }
  receive_all(ends.client, std::span(record).first(1));
  const double time_s = seconds_since(start);
  receiver.join();
  return time_s;
}

double raw_bulk_s(Ends ends, std::span<const std::byte> from, std::span<std::byte> to,
                  std::size_t staging_bytes) {
  std::thread sender([&] {
    std::vector<std::byte> staging(staging_bytes);
    for (auto rest = from; !rest.empty();) {
      if (staging.empty()) return send_all(ends.client, rest);
      const std::size_t piece = std::min(rest.size(), staging.size());
      std::memcpy(staging.data(), rest.data(), piece);
      send_all(ends.client, std::span(staging).first(piece));
      rest = rest.subspan(piece);
    }
  });
  std::vector<std::byte> staging(staging_bytes);
  const auto start = Clock::now();
  while (!to.empty()) {
    if (staging.empty()) {
      receive_all(ends.server, to);
      break;
    }
    const std::size_t piece =
        receive_some(ends.server, std::span(staging).first(std::min(to.size(), staging.size())));
    std::memcpy(to.data(), staging.data(), piece);
    to = to.subspan(piece);
  }
  const double time_s = seconds_since(start);
  sender.join();
  return time_s;
}

}  // namespace sluice::bench
