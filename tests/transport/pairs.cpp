#include "pairs.h"

#include "joining_thread.h"
#include "shm_pair.h"
#include "transport/emulate/emulated_stream.h"
#include "transport/fault/fault_channel.h"
#include "transport/resume/resumable_stream.h"
#include "transport/tls/tls_stream.h"
#include "transport/ucx/devices.h"
#include "transport/uring/uring_stream.h"
#include "ucx_pair.h"

#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace sluice::transport::testing {
namespace {

constexpr std::size_t kPatternBytes = 65521;

/// For the set-up of a test only: there is no test without it.
template <class T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "test set-up failed: %s\n", result.error().message.c_str());
  std::abort();
}

Streams make_tls_streams() {
  std::array<Fd, 2> sockets = make_sockets("tcp");
  const tls::SessionSecret secret{"1", {1, 2, 3}};
  Streams out;
  const JoiningThread server([&] {
    auto engine = must(tls::Engine::session(tls::Role::kServer, sockets[1].get(), secret));
    out.server = must(tls::complete(std::move(sockets[1]), std::move(engine), far()));
  });
  out.client = must(tls::linked_library().connect_session(std::move(sockets[0]), secret, far()));
  return out;
}

}  // namespace

Streams make_streams(const std::string& kind) {
  if (kind == "tcp_tls") return make_tls_streams();
  std::array<Fd, 2> sockets = make_sockets(kind);
  return {make_socket_stream(std::move(sockets[0])), make_socket_stream(std::move(sockets[1]))};
}

std::array<Fd, 2> make_sockets(const std::string& kind) {
  if (kind == "unix") {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    return {Fd(ends[0]), Fd(ends[1])};
  }
  const Address any = must(parse_address("127.0.0.1:0"));
  const Fd listener = must(listen_socket(any, 0));
  const Address bound = must(bound_address(any, listener.get()));
  Fd client = must(connect_socket(bound, std::chrono::seconds(30)));
  return {std::move(client), must(accept_socket(listener.get()))};
}

std::unique_ptr<Channel> make_shm_end(int memory_fd, Fd socket, shm::Side side) {
  return shm::make_channel(must(shm::adopt_memory(memory_fd)), std::move(socket), side);
}

std::unique_ptr<ByteStream> make_emulated(Fd socket, const std::string& link) {
  return must(emulate::make_emulated_stream(
      make_socket_stream(std::move(socket)),
      std::make_shared<emulate::Link>(must(emulate::parse_link(link)))));
}

Pair make_pair(const std::string& kind) {
  constexpr std::string_view kFaulty = "_faulty";
  if (kind.ends_with(kFaulty)) {
    Pair plain = make_pair(kind.substr(0, kind.size() - kFaulty.size()));
    Faults faults{.seed = 7, .piece_bytes_max = 3000, .delay_max = std::chrono::microseconds(100)};
    plain.client = make_fault_channel(std::move(plain.client), faults);
    faults.seed = 8;
    plain.server = make_fault_channel(std::move(plain.server), faults);
    return plain;
  }
  if (kind == "loop") {
    LoopPair loop = make_loop_pair();
    return {std::move(loop.client), std::move(loop.server)};
  }
  if (kind == "shm") {
    LoopPair ends = make_shm_pair();
    return {std::move(ends.client), std::move(ends.server)};
  }
  if (kind == "tcp_tls") {
    Streams ends = make_streams(kind);
    return {make_stream_channel(std::move(ends.client)),
            make_stream_channel(std::move(ends.server))};
  }
  constexpr std::string_view kResumable = "_resumable";
  if (kind.ends_with(kResumable)) {
    const auto end = [](std::unique_ptr<ByteStream> stream) {
      return make_stream_channel(std::make_unique<ResumableStream>(std::move(stream), false));
    };
    Streams ends = make_streams(kind.substr(0, kind.size() - kResumable.size()));
    return {end(std::move(ends.client)), end(std::move(ends.server))};
  }
#ifdef SLUICE_UCX_PLUGIN
  if (kind.starts_with("ucx")) {
    LoopPair ends = make_ucx_pair(kind);
    return {std::move(ends.client), std::move(ends.server)};
  }
#endif
  constexpr std::string_view kUring = "_uring";
  if (kind.ends_with(kUring)) {
    std::array<Fd, 2> sockets = make_sockets(kind.substr(0, kind.size() - kUring.size()));
    return {make_socket_channel(std::move(sockets[0])),
            make_stream_channel(must(
                uring::make_uring_stream(std::move(sockets[1]), uring::Receivers::kAnyThread)))};
  }
  constexpr std::string_view kEmulated = "_emulated";
  if (kind.ends_with(kEmulated)) {
    std::array<Fd, 2> sockets = make_sockets(kind.substr(0, kind.size() - kEmulated.size()));
    return {
        make_stream_channel(make_emulated(std::move(sockets[0]), "rtt=1ms,bw=8gbit,jitter=300us")),
        make_socket_channel(std::move(sockets[1]))};
  }
  std::array<Fd, 2> sockets = make_sockets(kind);
  return {make_socket_channel(std::move(sockets[0])), make_socket_channel(std::move(sockets[1]))};
}

std::vector<std::string> ucx_kinds() {
#ifndef SLUICE_UCX_PLUGIN
  return {};
#else
  // A process has one lane: with RDMA the test program is run for that.
  return {ucx::has_active_device() ? "ucx_rc" : "ucx_tcp"};
#endif
}

Deadline far() {
  return Clock::now() + std::chrono::seconds(100);
}

const std::vector<std::byte>& pattern() {
  static const std::vector<std::byte> bytes = [] {
    std::mt19937 random(20240229);
    std::vector<std::byte> out(kPatternBytes);
    for (std::byte& byte : out) byte = static_cast<std::byte>(random() & 0xff);
    return out;
  }();
  return bytes;
}

void fill_pattern(std::uint64_t offset, std::span<std::byte> into) {
  while (!into.empty()) {
    const std::span<const std::byte> from = std::span(pattern()).subspan(offset % kPatternBytes);
    const std::size_t piece = std::min(from.size(), into.size());
    std::memcpy(into.data(), from.data(), piece);
    into = into.subspan(piece);
    offset += piece;
  }
}

Status PatternSink::on_bytes(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<const std::byte> expected =
        std::span(pattern()).subspan(received_ % kPatternBytes);
    const std::size_t piece = std::min(expected.size(), bytes.size());
    if (std::memcmp(expected.data(), bytes.data(), piece) != 0) is_intact_ = false;
    received_ += piece;
    bytes = bytes.subspan(piece);
  }
  return {};
}

Status receive(Channel& channel, PatternSink& sink, std::uint64_t bytes) {
  const Deadline deadline = far();
  while (sink.received() < bytes) {
    SLUICE_TRY(const std::size_t got, channel.poll(sink, 64 * 1024));
    if (got > 0) continue;
    SLUICE_TRY(const bool is_ready, channel.wait(deadline));
    if (!is_ready) return fail(ErrorCode::kTimeout, "nothing arrived");
  }
  return {};
}

Error receive_to_end(Channel& channel, PatternSink& sink) {
  const Status ended = receive(channel, sink, UINT64_MAX);
  return ended ? Error{ErrorCode::kInternal, "no end"} : ended.error();
}

}  // namespace sluice::transport::testing
