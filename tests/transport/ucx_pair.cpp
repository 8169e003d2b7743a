#include "ucx_pair.h"

#include "joining_thread.h"
#include "transport/ucx/devices.h"
#include "transport/ucx/library.h"

#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>

namespace sluice {
namespace {

constexpr int kAttemptsMax = 4;

template <class T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "test set-up failed: %s\n", result.error().message.c_str());
  std::abort();
}

}  // namespace

namespace ucx = transport::ucx;

ucx::Plugin& ucx_plugin(const std::string& kind) {
  ::setenv("UCX_TLS", kind == "ucx_tcp" ? "tcp" : "rc", 1);
  // Other tests make and remove network devices; UCX fails if one that it has seen is gone.
  if (kind == "ucx_tcp") ::setenv("UCX_NET_DEVICES", "lo", 1);
  ::setenv("SLUICE_UCX_SOFTWARE_PUT", "1", 1);  // where there is no adapter
  return *must(ucx::load_from(SLUICE_UCX_PLUGIN));
}

std::string ucx_host(const std::string& kind) {
  if (kind == "ucx_tcp") return "127.0.0.1";
  const auto found = ucx::addresses("");
  return found.empty() ? "" : found.front();
}

transport::LoopPair make_ucx_pair(const std::string& kind,
                                  const std::function<void()>& before_connecting,
                                  std::string* no_staging) {
  ucx::Plugin& plugin = ucx_plugin(kind);
  const auto deadline = transport::Clock::now() + std::chrono::seconds(60);
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  const Fd client_socket(ends[0]), server_socket(ends[1]);
  const ucx::Token token = must(ucx::random_token());
  const auto listener = must(plugin.listen(ucx_host(kind), token));
  const ucx::StagingOffer offer = must(listener->offer_staging());
  transport::LoopPair out;
  {
    const JoiningThread server([&] {
      if (!listener->serve_until_readable(server_socket.get(), deadline)) std::abort();
      char byte = 0;
      if (::read(server_socket.get(), &byte, 1) != 1) std::abort();
      out.server = must(listener->take(server_socket, true));
    });
    if (before_connecting) before_connecting();
    // On a machine that is very busy a client may take longer than the 2 s that strangers have.
    const auto connect = [&] {
      return plugin.connect(ucx_host(kind), listener->port(), token, client_socket, deadline,
                            &offer, no_staging);
    };
    auto client = connect();
    for (int attempt = 1; !client && attempt < kAttemptsMax; ++attempt) client = connect();
    out.client = must(std::move(client));
    if (::write(client_socket.get(), "x", 1) != 1) std::abort();
  }
  return out;
}

}  // namespace sluice
