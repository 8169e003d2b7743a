#include "transport/tls/tls_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <mutex>

namespace sluice::transport::tls {
namespace {

/// One lock for both directions, since OpenSSL's object is one; it is never held over a wait.
class TlsStream final : public ByteStream {
 public:
  TlsStream(Fd socket, std::unique_ptr<Engine> engine)
      : socket_(std::move(socket)), engine_(std::move(engine)) {}
  ~TlsStream() override {
    if (!is_closed_ && socket_.valid()) close();
  }

  Result<std::size_t> send_some(std::span<const std::byte> bytes) override {
    if (is_closed_) return fail(ErrorCode::kPeerClosed, "sending: this connection is closed");
    const std::lock_guard lock(mutex_);
    return engine_->send_some(bytes);
  }
  std::size_t bytes_ahead() override {
    const std::lock_guard lock(mutex_);
    return engine_->bytes_ahead();
  }
  Result<std::size_t> receive_some(std::span<std::byte> into) override {
    const std::lock_guard lock(mutex_);
    return engine_->receive_some(into);
  }

  Result<bool> wait(For what, Deadline deadline) override {
    if (what == For::kSend) return wait_on(socket_.get(), what, deadline);
    {
      const std::lock_guard lock(mutex_);
      if (engine_->has_received()) return true;
      // TLS's own answers are short; whoever has no room for them does not read. If the connection
      // is gone, receive_some() says so once it has given what is left.
      if (engine_->has_unsent_of_its_own()) static_cast<void>(engine_->flush());
    }
    return wait_on(socket_.get(), what, deadline);
  }

  [[nodiscard]] int fd() const override { return socket_.get(); }
  [[nodiscard]] Kind kind() const override {
    return {.same_host = false, .encrypted = true, .name = "tcp+tls"};
  }
  [[nodiscard]] Ending ending() const override { return engine_->ending(); }

  void close() noexcept override {
    if (!is_closed_.exchange(true)) {
      const std::lock_guard lock(mutex_);
      engine_->say_goodbye();
    }
    ::shutdown(socket_.get(), SHUT_RDWR);
  }
  void abandon_in_child() noexcept override { socket_.reset(); }

 private:
  Fd socket_;
  std::atomic<bool> is_closed_{false};
  std::mutex mutex_;  ///< guards *engine_
  std::unique_ptr<Engine> engine_;
};

class Linked final : public Library {
 public:
  [[nodiscard]] Result<std::unique_ptr<ByteStream>> connect(Fd socket,
                                                            const ClientSettings& settings,
                                                            Deadline deadline) const override {
    SLUICE_TRY(const Context context, make_client_context(settings));
    SLUICE_TRY(auto engine, Engine::client(context, socket.get(), settings));
    return complete(std::move(socket), std::move(engine), deadline);
  }
  [[nodiscard]] Result<std::unique_ptr<ByteStream>> connect_session(
      Fd socket, const SessionSecret& secret, Deadline deadline) const override {
    SLUICE_TRY(auto engine, Engine::session(Role::kClient, socket.get(), secret));
    return complete(std::move(socket), std::move(engine), deadline);
  }
};

}  // namespace

std::unique_ptr<ByteStream> make_tls_stream(Fd socket, std::unique_ptr<Engine> engine) {
  return std::make_unique<TlsStream>(std::move(socket), std::move(engine));
}

Result<std::unique_ptr<ByteStream>> complete(Fd socket, std::unique_ptr<Engine> engine,
                                             Deadline deadline) {
  for (;;) {
    SLUICE_TRY(const bool is_done, engine->handshake());
    if (is_done) return make_tls_stream(std::move(socket), std::move(engine));
    const auto what = engine->has_unsent() ? ByteStream::For::kSend : ByteStream::For::kReceive;
    SLUICE_TRY(const bool is_ready, wait_on(socket.get(), what, deadline));
    if (!is_ready) return fail(ErrorCode::kTimeout, "TLS: the peer did not answer in time");
  }
}

const Library& linked_library() {
  static const Linked library;
  return library;
}

}  // namespace sluice::transport::tls
