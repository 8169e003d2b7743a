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

/// Waits for the one client that knows the token. Confined to one thread.
class Listener {
 public:
  virtual ~Listener() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// Lets clients connect until `fd` is readable; Err(kTimeout) at the deadline. A client that has
  /// not sent the token 2 s after it connected is dropped.
  [[nodiscard]] virtual Status serve_until_readable(int fd, Deadline deadline) = 0;
  /// The channel to the client that has sent the token; Err(kNotFound) if none has. Nobody can
  /// connect afterwards. `life_line` is the socket on which the two agreed; the channel keeps a
  /// duplicate, by whose end it learns that the peer is gone.
  [[nodiscard]] virtual Result<std::unique_ptr<Channel>> take(const Fd& life_line) = 0;
};

class Plugin {
 public:
  virtual ~Plugin() = default;
  [[nodiscard]] virtual Lane lane() const = 0;
  /// `host` is numeric; the host kernel picks the port.
  [[nodiscard]] virtual Result<std::unique_ptr<Listener>> listen(const std::string& host,
                                                                 const Token& token) = 0;
  /// Returns when the listener has acknowledged the token.
  [[nodiscard]] virtual Result<std::unique_ptr<Channel>> connect(const std::string& host,
                                                                 std::uint16_t port,
                                                                 const Token& token,
                                                                 const Fd& life_line,
                                                                 Deadline deadline) = 0;
};

/// Changes with anything above or in transport.h.
inline constexpr std::uint32_t kPluginVersion = 1;
inline constexpr const char* kPluginEntry = "sluice_ucx_start";
/// Makes the process's one UCX context; the environment must be quiet until it returns.
using PluginEntry = void (*)(std::uint32_t version, Lane lane, Result<Plugin*>* out);

}  // namespace sluice::transport::ucx
