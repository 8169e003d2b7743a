#include "ucx_channels.h"

#include "transport/ucx/devices.h"
#include "transport/ucx/library.h"

#include <dlfcn.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <thread>

namespace sluice::bench {
namespace {

namespace ucx = transport::ucx;
using transport::Clock;
using transport::RemoteStaging;

constexpr std::size_t kUnderWayMax = 4;  // as the client library

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "sluice-perf: ucx: %s\n", why.c_str());
  std::exit(1);
}
template <class T>
T must(Result<T> result) {
  if (!result) give_up(result.error().message);
  return std::move(*result);
}
void must(const Status& status) {
  if (!status) give_up(status.error().message);
}

std::unique_ptr<RawUcx> make_raw(const std::string& host, bool is_tcp) {
  const auto bin = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string path = bin / "../lib/bench" / kRawUcxLibrary;
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) give_up(::dlerror());
  const auto entry = reinterpret_cast<RawUcxEntry>(::dlsym(library, kRawUcxEntry));
  if (entry == nullptr) give_up(path + " is of another build");
  std::string error;
  std::unique_ptr<RawUcx> raw(entry(host.c_str(), is_tcp, &error));
  if (raw == nullptr) give_up("the yardstick: " + error);
  return raw;
}

}  // namespace

UcxChannels make_ucx_channels() {
  ::setenv("SLUICE_UCX_SOFTWARE_PUT", "1", 1);  // both ends are ours
  must(ucx::check_host());
  ucx::Plugin& plugin = *must(ucx::load());
  const bool is_tcp = plugin.lane() == ucx::Lane::kTcp;
  const auto addresses = ucx::addresses("");
  if (!is_tcp && addresses.empty()) give_up("the RDMA device has no IP address");
  const std::string host = is_tcp ? "127.0.0.1" : addresses.front();
  int sockets[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    give_up(std::strerror(errno));
  const Fd ours(sockets[0]), theirs(sockets[1]);
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  const ucx::Token token = must(ucx::random_token());
  const auto listener = must(plugin.listen(host, token));
  const ucx::StagingOffer offer = must(listener->offer_staging());
  UcxChannels out;
  std::thread server([&] { must(listener->serve_until_readable(theirs.get(), deadline)); });
  std::string no_staging;
  out.ends.client =
      must(plugin.connect(host, listener->port(), token, ours, deadline, &offer, &no_staging));
  if (::write(ours.get(), "x", 1) != 1) give_up(std::strerror(errno));
  server.join();
  char byte = 0;
  if (::read(theirs.get(), &byte, 1) != 1) give_up(std::strerror(errno));
  out.ends.server = must(listener->take(theirs, true));
  if (!no_staging.empty()) give_up(no_staging);
  out.raw = make_raw(host, is_tcp);
  return out;
}

double staged_put_s(transport::Channel& client, std::span<const std::byte> from) {
  RemoteStaging& remote = *client.remote_staging();
  const std::span<std::byte> memory = client.staging();
  std::deque<RemoteStaging::Ticket> under_way;
  const auto start = Clock::now();
  for (std::size_t at = 0; at < from.size(); at += RawUcx::kPieceBytes) {
    const auto piece = from.subspan(at, std::min(RawUcx::kPieceBytes, from.size() - at));
    const std::size_t slot = at % memory.size();
    std::memcpy(memory.data() + slot, piece.data(), piece.size());
    under_way.push_back(must(remote.start_put(slot, piece.size())));
    for (; under_way.size() > kUnderWayMax; under_way.pop_front())
      must(remote.finish(under_way.front()));
  }
  for (const auto ticket : under_way) must(remote.finish(ticket));
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double staged_get_s(transport::Channel& client, std::span<std::byte> to) {
  RemoteStaging& remote = *client.remote_staging();
  const std::span<std::byte> memory = client.staging();
  struct Piece {
    RemoteStaging::Ticket ticket;
    std::size_t slot;
    std::span<std::byte> to;
  };
  std::deque<Piece> under_way;
  const auto take = [&] {
    const Piece& piece = under_way.front();
    must(remote.finish(piece.ticket));
    std::memcpy(piece.to.data(), memory.data() + piece.slot, piece.to.size());
    under_way.pop_front();
  };
  const auto start = Clock::now();
  for (std::size_t at = 0; at < to.size(); at += RawUcx::kPieceBytes) {
    const auto piece = to.subspan(at, std::min(RawUcx::kPieceBytes, to.size() - at));
    const std::size_t slot = at % memory.size();
    under_way.push_back({must(remote.start_get(slot, piece.size())), slot, piece});
    if (under_way.size() > kUnderWayMax) take();
  }
  while (!under_way.empty()) take();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace sluice::bench
