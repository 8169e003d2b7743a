#include "channels.h"

#include "cipher.h"
#include "raw_peer.h"
#include "transport/shm/memory.h"
#include "transport/tls/tls_stream.h"
#include "transport/transport.h"
#include "ucx_channels.h"
#include "yardstick.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace sluice::bench {
namespace {

using transport::Channel;
using transport::Clock;
using transport::Deadline;
using transport::FlushHint;

using Options = ChannelOptions;

template <class T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "sluice-perf: %s\n", result.error().message.c_str());
  std::exit(1);
}

void must(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "sluice-perf: %s\n", status.error().message.c_str());
  std::exit(1);
}

std::array<Fd, 2> make_sockets(const std::string& kind) {
  if (!kind.starts_with("tcp")) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      must(Status(fail(system_error("creating a socket pair", errno))));
    return {Fd(ends[0]), Fd(ends[1])};
  }
  const transport::Address any = must(transport::parse_address("127.0.0.1:0"));
  const Fd listener = must(transport::listen_socket(any, 0));
  const transport::Address bound = must(transport::bound_address(any, listener.get()));
  Fd client = must(transport::connect_socket(bound, std::chrono::seconds(10)));
  return {std::move(client), must(transport::accept_socket(listener.get()))};
}

struct Pair {
  std::unique_ptr<Channel> client, server;
};

Pair encrypt(std::array<Fd, 2> sockets) {
  namespace tls = transport::tls;
  const tls::SessionSecret secret{"1", {1}};
  const Deadline deadline = Clock::now() + std::chrono::seconds(10);
  Pair out;
  std::thread server([&] {
    auto engine = must(tls::Engine::session(tls::Role::kServer, sockets[1].get(), secret));
    out.server = transport::make_stream_channel(
        must(tls::complete(std::move(sockets[1]), std::move(engine), deadline)));
  });
  out.client = transport::make_stream_channel(
      must(tls::linked_library().connect_session(std::move(sockets[0]), secret, deadline)));
  server.join();
  return out;
}

Pair make_channels(const std::string& kind) {
  if (kind == "loop") {
    transport::LoopPair loop = transport::make_loop_pair();
    return {std::move(loop.client), std::move(loop.server)};
  }
  std::array<Fd, 2> sockets = make_sockets(kind);
  if (kind == "shm") {
    namespace shm = transport::shm;
    shm::Made memory = must(shm::make_memory());
    auto other = must(shm::adopt_memory(memory.fd.get()));
    return {shm::make_channel(std::move(memory.mapping), std::move(sockets[0]), shm::Side::kClient),
            shm::make_channel(std::move(other), std::move(sockets[1]), shm::Side::kServer)};
  }
  if (kind == "tcp-tls") return encrypt(std::move(sockets));
  return {transport::make_socket_channel(std::move(sockets[0])),
          transport::make_socket_channel(std::move(sockets[1]))};
}

/// Copies what arrives to `to`, or only counts it.
class CopySink final : public transport::RecvSink {
 public:
  explicit CopySink(std::span<std::byte> to = {}) : to_(to) {}
  Status on_bytes(std::span<const std::byte> bytes) override {
    if (!to_.empty()) std::memcpy(to_.data() + received, bytes.data(), bytes.size());
    received += bytes.size();
    return {};
  }
  std::size_t received = 0;

 private:
  std::span<std::byte> to_;
};

void receive(Channel& channel, CopySink& sink, std::size_t bytes) {
  const std::size_t end = sink.received + bytes;
  while (sink.received < end) {
    if (must(channel.poll(sink, 256 * 1024)) == 0) must(channel.wait(Deadline::max()));
  }
}

void send_record(Channel& channel, std::span<const std::byte> bytes, FlushHint hint) {
  const std::span<std::byte> space = channel.reserve(bytes.size());
  if (space.empty()) must(channel.flush());
  std::memcpy(space.data(), bytes.data(), bytes.size());
  channel.commit(bytes.size(), hint);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void channel_ping_pong(const Pair& ends, std::size_t bytes, std::span<double> round_us) {
  std::thread echo([&] {
    const std::vector<std::byte> message(bytes);
    CopySink sink;
    for (std::size_t i = 0; i < round_us.size(); ++i) {
      receive(*ends.server, sink, bytes);
      send_record(*ends.server, message, FlushHint::kNow);
    }
  });
  const std::vector<std::byte> message(bytes);
  CopySink sink;
  for (double& round : round_us) {
    const auto start = Clock::now();
    send_record(*ends.client, message, FlushHint::kNow);
    receive(*ends.client, sink, bytes);
    round = seconds_since(start) * 1e6;
  }
  echo.join();
}

double channel_commands_s(const Pair& ends, const Options& options) {
  std::thread receiver([&] {
    CopySink sink;
    receive(*ends.server, sink, options.message_bytes * options.command_count);
    send_record(*ends.server, std::vector<std::byte>(1), FlushHint::kNow);
  });
  const std::vector<std::byte> record(options.message_bytes);
  CopySink answer;
  const auto start = Clock::now();
  for (std::size_t i = 1; i <= options.command_count; ++i)
    send_record(*ends.client, record, i % options.batch == 0 ? FlushHint::kNow : FlushHint::kNone);
  receive(*ends.client, answer, 1);
  const double time_s = seconds_since(start);
  receiver.join();
  return time_s;
}

double channel_bulk_s(const Pair& ends, std::span<const std::byte> from, std::span<std::byte> to) {
  std::thread sender([&] { must(ends.client->write_through(from)); });
  CopySink sink(to);
  const auto start = Clock::now();
  receive(*ends.server, sink, to.size());
  const double time_s = seconds_since(start);
  sender.join();
  return time_s;
}

/// The peer's end is read all the time: over some lanes nothing moves otherwise.
template <class Measure>
double while_read(Channel& server, const Measure& measure) {
  std::atomic<bool> stops = false;
  std::thread reader([&] {
    CopySink sink;
    while (!stops && server.poll(sink, 4096))
      static_cast<void>(server.wait(Clock::now() + std::chrono::milliseconds(1)));
  });
  const double result = measure();
  stops = true;
  reader.join();
  return result;
}

std::vector<Figure> measure_ucx(const Options& options) {
  UcxChannels ucx = make_ucx_channels();
  const Pair channels{std::move(ucx.ends.client), std::move(ucx.ends.server)};
  std::vector<Figure> out;
  std::vector<double> rounds(options.rounds);
  for (const double q : {0.5, 0.99}) {
    out.push_back(compare(
        q < 0.9 ? "round trip p50" : "round trip p99", "us", "UCX alone, spinning", options.repeats,
        [&] {
          channel_ping_pong(channels, options.message_bytes, rounds);
          return quantile(rounds, q);
        },
        [&] {
          ucx.raw->ping_pong(options.message_bytes, rounds);
          return quantile(rounds, q);
        }));
  }
  if (options.bulk_mib == 0) return out;
  std::vector<std::byte> memory(options.bulk_mib << 20, std::byte{1});
  std::vector<std::byte> received(memory.size(), std::byte{2});
  const double gigabytes = static_cast<double>(memory.size()) / 1e9;
  const std::size_t pieces = memory.size() / RawUcx::kPieceBytes;
  out.push_back(compare(
      "bulk, put through staging", "GB/s", "UCX alone, put", options.repeats,
      [&] {
        return gigabytes /
               while_read(*channels.server, [&] { return staged_put_s(*channels.client, memory); });
      },
      [&] { return gigabytes / ucx.raw->put_s(pieces); }));
  out.push_back(compare(
      "bulk, get through staging", "GB/s", "UCX alone, get", options.repeats,
      [&] {
        return gigabytes /
               while_read(*channels.server, [&] { return staged_get_s(*channels.client, memory); });
      },
      [&] { return gigabytes / ucx.raw->get_s(pieces); }));
  out.push_back(compare(
      "bulk, in messages", "GB/s", "UCX alone, put", options.repeats,
      [&] { return gigabytes / channel_bulk_s(channels, memory, received); },
      [&] { return gigabytes / ucx.raw->put_s(pieces); }));
  return out;
}

}  // namespace

std::vector<Figure> measure_channels(const std::string& kind, const ChannelOptions& given) {
  if (kind == "ucx") return measure_ucx(given);
  Options options = given;
  // Both sides carry whole batches.
  options.command_count =
      std::max(options.batch, options.command_count / options.batch * options.batch);
  const std::string yardstick = kind.starts_with("tcp") ? "tcp" : "unix";
  const std::string socket = yardstick + " socket";
  const Pair channels = make_channels(kind);
  const std::array<Fd, 2> sockets = make_sockets(yardstick);
  const Ends ends{sockets[0].get(), sockets[1].get()};

  std::vector<Figure> out;
  std::vector<double> rounds(options.rounds);
  for (const double q : {0.5, 0.99}) {
    out.push_back(compare(
        q < 0.9 ? "round trip p50" : "round trip p99", "us", socket, options.repeats,
        [&] {
          channel_ping_pong(channels, options.message_bytes, rounds);
          return quantile(rounds, q);
        },
        [&] {
          raw_ping_pong(ends, options.message_bytes, rounds);
          return quantile(rounds, q);
        }));
  }
  const double commands_m = static_cast<double>(options.command_count) / 1e6;
  out.push_back(compare(
      "commands, batched", "M/s", socket, options.repeats,
      [&] { return commands_m / channel_commands_s(channels, options); },
      [&] {
        return commands_m /
               raw_commands_s(ends, options.message_bytes, options.batch, options.command_count);
      }));
  if (kind == "shm" && options.message_bytes == 64 && options.batch == 64) {
    RawPeer ring(false);
    out.push_back(compare(
        "commands, batched", "M/s", "bare ring", options.repeats,
        [&] { return commands_m / channel_commands_s(channels, options); },
        [&] { return commands_m / ring.commands_s(RawWay::kSpin, options.command_count); }));
  }
  if (options.bulk_mib == 0) return out;
  const std::vector<std::byte> from(options.bulk_mib << 20, std::byte{1});
  std::vector<std::byte> to(from.size(), std::byte{2});
  const double gigabytes = static_cast<double>(from.size()) / 1e9;
  const auto bulk = [&] { return gigabytes / channel_bulk_s(channels, from, to); };
  out.push_back(compare("bulk", "GB/s", socket + ", staged", options.repeats, bulk, [&] {
    return gigabytes / raw_bulk_s(ends, from, to, options.staging_kib << 10);
  }));
  out.push_back(compare("bulk", "GB/s", socket + ", direct", options.repeats, bulk,
                        [&] { return gigabytes / raw_bulk_s(ends, from, to, 0); }));
  if (kind == "tcp-tls")
    out.push_back(compare("bulk", "GB/s", "AES-256-GCM, one core", options.repeats, bulk,
                          [&] { return gigabytes / raw_cipher_s(from); }));
  return out;
}

}  // namespace sluice::bench
