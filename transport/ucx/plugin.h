// What libsluice_ucx.so offers to the rest: the only object that links to UCX, loaded by library.h
// when it is needed. Both come from one build; the entry point says so.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "transport/transport.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace sluice::transport::ucx {

/// What the two ends agreed on over their socket. UCX authenticates nobody: every message carries
/// it, and whoever cannot send it is no peer.
using Token = std::array<std::uint8_t, 16>;
Result<Token> random_token();

/// kTcp is for tests and for fabrics that only UCX knows; our own TCP is faster.
enum class Lane : std::uint8_t { kRdma, kTcp };

/// How UCX is used in this process.
struct Setup {
  Lane lane = Lane::kRdma;
  /// Over kTcp: UCX copies into and out of registered memory in software, at addresses that nobody
  /// checks. For tests.
  bool has_software_put = false;
};

/// Of the client's and of the worker's staging memory, each.
inline constexpr std::size_t kStagingBytes = 8 * 1024 * 1024;

/// What a client must know to reach the worker's staging memory.
struct StagingOffer {
  std::uint64_t address = 0, bytes = 0;
  std::string key;
};

/// Waits for the one client that knows the token. Confined to one thread.
class Listener {
 public:
  virtual ~Listener() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// Lets clients connect until `fd` is readable; Err(kTimeout) at the deadline. A client that has
  /// not sent the token 2 s after it connected is dropped.
  [[nodiscard]] virtual Status serve_until_readable(int fd, Deadline deadline) = 0;
  /// Registers staging memory for the client; at most once. Err(kUnsupported): this lane has no put
  /// and get that the network adapter checks.
  [[nodiscard]] virtual Result<StagingOffer> offer_staging() = 0;
  /// The channel to the client that has sent the token; Err(kNotFound) if none has. Nobody can
  /// connect afterwards. `life_line` is the socket on which the two agreed; the channel keeps a
  /// duplicate, by whose end it learns that the peer is gone. `uses_staging`: the client has taken
  /// the offer; else the memory is given up.
  [[nodiscard]] virtual Result<std::unique_ptr<Channel>> take(const Fd& life_line,
                                                              bool uses_staging = false) = 0;
};

class Plugin {
 public:
  virtual ~Plugin() = default;
  [[nodiscard]] virtual Lane lane() const = 0;
  /// `host` is numeric; the host kernel picks the port.
  [[nodiscard]] virtual Result<std::unique_ptr<Listener>> listen(const std::string& host,
                                                                 const Token& token) = 0;
  /// Returns when the listener has acknowledged the token. With an offer the channel has staging
  /// memory; if that is impossible, it has none, and `no_staging` says why.
  [[nodiscard]] virtual Result<std::unique_ptr<Channel>> connect(
      const std::string& host, std::uint16_t port, const Token& token, const Fd& life_line,
      Deadline deadline, const StagingOffer* offer = nullptr,
      std::string* no_staging = nullptr) = 0;
  /// Whether this UCX can read and write the memory of CUDA devices.
  [[nodiscard]] virtual Result<bool> knows_device_memory() = 0;
};

/// Changes with anything above or in transport.h.
inline constexpr std::uint32_t kPluginVersion = 2;
inline constexpr const char* kPluginEntry = "sluice_ucx_start";
/// Starts UCX; the environment must be quiet until it returns.
using PluginEntry = void (*)(std::uint32_t version, const Setup& setup, Result<Plugin*>* out);

}  // namespace sluice::transport::ucx
