#include "raw_peer.h"

#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kRecordBytes = 64;
constexpr std::size_t kBatch = 64;
constexpr std::size_t kRingBytes = 1024 * 1024;
constexpr std::chrono::seconds kPingPongTime{1};
constexpr std::size_t kGroup = 64;
constexpr int kSpinsBeforeYield = 2'000;  // so that it also ends on a single core

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  ::syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

template <class Done>
void spin(const Done& done) {
  for (int i = 0; !done(); ++i) {
    __builtin_ia32_pause();
    if (i % kSpinsBeforeYield == kSpinsBeforeYield - 1) ::sched_yield();
  }
}

void await(std::atomic<std::uint32_t>& word, std::uint32_t value, bool spins) {
  if (spins) return spin([&] { return word.load(std::memory_order_acquire) == value; });
  for (std::uint32_t seen = word.load(); seen != value; seen = word.load())
    futex(word, FUTEX_WAIT, seen);
}

void announce(std::atomic<std::uint32_t>& word, std::uint32_t value, bool spins) {
  word.store(value, std::memory_order_release);
  if (!spins) futex(word, FUTEX_WAKE, INT_MAX);
}

void send_all(int fd, const void* data, std::size_t bytes) {
  if (::send(fd, data, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) std::_Exit(1);
}
void receive_all(int fd, void* data, std::size_t bytes) {
  if (::recv(fd, data, bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) std::_Exit(1);
}

std::array<Fd, 2> tcp_pair() {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), plain, bytes) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), plain, &bytes) != 0 ||
      ::connect(client.get(), plain, bytes) != 0)
    std::abort();
  Fd server(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const int one = 1;
  for (const Fd* fd : {&client, &server})
    ::setsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return {std::move(client), std::move(server)};
}

enum Mode : unsigned {
  kIdle,
  kSpinEcho,
  kFutexEcho,
  kUnixEcho,
  kTcpEcho,
  kRing,
  kUnixTake,
  kTcpTake,
  kUnixStore,
  kTcpStore,
  kUnixGive,
  kTcpGive
};

/// What transport/stream/stream_channel.cpp stages through.
constexpr std::size_t kStagingBytes = 64 * 1024;

void send_staged(int fd, std::span<const std::byte> data) {
  static std::byte staging[kStagingBytes];
  while (!data.empty()) {
    const std::size_t piece = std::min(data.size(), sizeof staging);
    std::memcpy(staging, data.data(), piece);
    send_all(fd, staging, piece);
    data = data.subspan(piece);
  }
}

void receive_staged(int fd, std::span<std::byte> into) {
  static std::byte staging[kStagingBytes];
  while (!into.empty()) {
    const ssize_t got = ::recv(fd, staging, std::min(into.size(), sizeof staging), 0);
    if (got <= 0) std::_Exit(1);
    std::memcpy(into.data(), staging, static_cast<std::size_t>(got));
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace

struct RawPeer::Shared {
  alignas(64) std::atomic<std::uint32_t> orders{0};
  std::atomic<unsigned> mode{kIdle};
  std::atomic<std::size_t> count{0};
  alignas(64) std::atomic<std::uint32_t> ping{0};
  alignas(64) std::atomic<std::uint32_t> pong{0};
  alignas(64) std::atomic<std::uint64_t> head{0};
  alignas(64) std::atomic<std::uint64_t> tail{0};
  alignas(64) std::byte ring[kRingBytes];
};

RawPeer::RawPeer(bool with_tcp) {
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  shared_ = new (memory) Shared;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  unix_.reset(ends[0]);
  const Fd unix_peer(ends[1]);
  std::array<Fd, 2> tcp;
  if (with_tcp) tcp = tcp_pair();
  pid_ = ::fork();
  if (pid_ < 0) std::abort();
  if (pid_ == 0) serve(unix_peer.get(), tcp[1].get());
  tcp_ = std::move(tcp[0]);
}

RawPeer::~RawPeer() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::munmap(shared_, sizeof(Shared));
}

void RawPeer::order(unsigned mode, std::size_t count) {
  shared_->mode = mode;
  shared_->count = count;
  shared_->ping = shared_->pong = 0;
  shared_->head = shared_->tail = 0;
  announce(shared_->orders, shared_->orders.load() + 1, false);
}

void RawPeer::serve(int unix_fd, int tcp_fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::array<std::byte, kRecordBytes * kBatch> group{};
  std::vector<std::byte> memory;
  for (std::uint32_t orders = 1;; ++orders) {
    await(shared_->orders, orders, false);
    const unsigned mode = shared_->mode;
    const std::size_t count = shared_->count;
    const bool is_unix =
        mode == kUnixEcho || mode == kUnixTake || mode == kUnixStore || mode == kUnixGive;
    const int fd = is_unix ? unix_fd : tcp_fd;
    if (mode >= kUnixStore && memory.size() < count) memory.resize(count);
    if (mode == kSpinEcho || mode == kFutexEcho) {
      for (std::uint32_t i = 1; i <= count; ++i) {
        await(shared_->ping, i, mode == kSpinEcho);
        announce(shared_->pong, i, mode == kSpinEcho);
      }
    } else if (mode == kUnixEcho || mode == kTcpEcho) {
      for (std::size_t i = 0; i < count; ++i) {
        receive_all(fd, group.data(), kRecordBytes);
        send_all(fd, group.data(), kRecordBytes);
      }
    } else if (mode == kRing) {
      for (std::uint64_t at = 0; at < count * kRecordBytes;) {
        spin([&] { return shared_->head.load(std::memory_order_acquire) != at; });
        for (const std::uint64_t end = shared_->head; at < end; at += group.size())
          std::memcpy(group.data(), shared_->ring + at % kRingBytes, group.size());
        shared_->tail.store(at, std::memory_order_release);
      }
      announce(shared_->pong, 1, true);
    } else if (mode == kUnixStore || mode == kTcpStore) {
      receive_staged(fd, std::span(memory).first(count));
      send_all(fd, group.data(), 1);
    } else if (mode == kUnixGive || mode == kTcpGive) {
      send_staged(fd, std::span(memory).first(count));
    } else {
      for (std::size_t left = count * kRecordBytes; left > 0; left -= group.size())
        receive_all(fd, group.data(), group.size());
      send_all(fd, group.data(), 1);
    }
  }
}

std::size_t RawPeer::ping_pong(RawWay way, std::span<double> round_us) {
  const auto end = Clock::now() + kPingPongTime;
  std::size_t done = 0;
  while (done < round_us.size() && (done == 0 || Clock::now() < end)) {
    const auto group = round_us.subspan(done).first(std::min(kGroup, round_us.size() - done));
    ping_pong_all(way, group);
    done += group.size();
  }
  return done;
}

void RawPeer::ping_pong_all(RawWay way, std::span<double> round_us) {
  const bool is_memory = way == RawWay::kSpin || way == RawWay::kFutex;
  const bool spins = way == RawWay::kSpin;
  order(spins                   ? kSpinEcho
        : way == RawWay::kFutex ? kFutexEcho
        : way == RawWay::kUnix  ? kUnixEcho
                                : kTcpEcho,
        round_us.size());
  std::array<std::byte, kRecordBytes> record{};
  std::uint32_t i = 0;
  for (double& round : round_us) {
    const auto start = Clock::now();
    ++i;
    if (is_memory) {
      announce(shared_->ping, i, spins);
      await(shared_->pong, i, spins);
    } else {
      send_all(socket(way), record.data(), record.size());
      receive_all(socket(way), record.data(), record.size());
    }
    round = us_since(start);
  }
}

double RawPeer::send_s(RawWay way, std::span<const std::byte> data) {
  const auto start = Clock::now();
  order(way == RawWay::kUnix ? kUnixStore : kTcpStore, data.size());
  send_staged(socket(way), data);
  std::byte answer{};
  receive_all(socket(way), &answer, 1);
  return us_since(start) / 1e6;
}

double RawPeer::fetch_s(RawWay way, std::span<std::byte> into) {
  const auto start = Clock::now();
  order(way == RawWay::kUnix ? kUnixGive : kTcpGive, into.size());
  receive_staged(socket(way), into);
  return us_since(start) / 1e6;
}

double RawPeer::commands_s(RawWay way, std::size_t count) {
  count = count / kBatch * kBatch;
  const bool is_memory = way == RawWay::kSpin || way == RawWay::kFutex;
  order(is_memory ? kRing : way == RawWay::kUnix ? kUnixTake : kTcpTake, count);
  std::array<std::byte, kRecordBytes> record{};
  std::array<std::byte, kRecordBytes * kBatch> group{};
  const auto start = Clock::now();
  for (std::uint64_t at = 0; at < count * kRecordBytes; at += group.size()) {
    if (is_memory) spin([&] { return at + group.size() - shared_->tail.load() <= kRingBytes; });
    std::byte* const to = is_memory ? shared_->ring + at % kRingBytes : group.data();
    for (std::size_t i = 0; i < kBatch; ++i)
      std::memcpy(to + i * kRecordBytes, record.data(), kRecordBytes);
    if (is_memory)
      shared_->head.store(at + group.size(), std::memory_order_release);
    else
      send_all(socket(way), group.data(), group.size());
  }
  if (is_memory)
    await(shared_->pong, 1, true);
  else
    receive_all(socket(way), record.data(), 1);
  return us_since(start) / 1e6;
}

}  // namespace sluice::bench
