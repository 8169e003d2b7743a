// The TLS of one connection over a non-blocking look at its socket: never waits, has no lock and
// does not own the descriptor. A ByteStream (tls_stream.cpp) and the broker's event loop drive it.
//
// OpenSSL reads from and writes to memory here: one recv() brings many records, one send() takes
// many, and a write never stops half-way inside OpenSSL.
#pragma once

#include "common/result.h"
#include "transport/stream/socket_ending.h"
#include "transport/tls/context.h"
#include "transport/tls/tls.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

struct bio_st;
struct bio_method_st;
struct evp_md_st;
struct ssl_session_st;
struct x509_st;
struct x509_store_ctx_st;
struct ssl_st;

namespace sluice::transport::tls {

class Engine {
 public:
  /// `host` is what the server's certificate must be for; it must outlive nothing.
  static Result<std::unique_ptr<Engine>> client(const Context& context, int fd,
                                                const ClientSettings& settings);
  static Result<std::unique_ptr<Engine>> server(const Context& context, int fd);
  static Result<std::unique_ptr<Engine>> session(Role role, int fd, SessionSecret secret);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// One step; true when it is over and everything of it is sent. Else wait for the socket: until
  /// it can be written if has_unsent(), until it can be read otherwise.
  [[nodiscard]] Result<bool> handshake();
  /// As ByteStream::send_some() and bytes_ahead(). After a 0, the bytes that were not taken come
  /// first again. What it has taken, the socket has.
  [[nodiscard]] Result<std::size_t> send_some(std::span<const std::byte> bytes);
  [[nodiscard]] std::size_t bytes_ahead() const { return ahead_; }
  /// As ByteStream::receive_some(); 0 only if nothing is left here either. A connection that ends
  /// without TLS's goodbye was cut, by whomever: Err(kPeerClosed) says so.
  [[nodiscard]] Result<std::size_t> receive_some(std::span<std::byte> into);
  /// Passes on what is encrypted and unsent, as far as the socket takes it.
  [[nodiscard]] Status flush();
  [[nodiscard]] bool has_unsent() const { return out_begin_ < out_.size(); }
  /// Unsent, and not part of a send_some() that will come again: TLS's own messages.
  [[nodiscard]] bool has_unsent_of_its_own() const { return has_unsent() && ahead_ == 0; }
  /// As ByteStream::ending(). A peer that says goodbye and one whose host closes the socket for it
  /// have ended; bytes that are not the peer's are a reset by whoever sent them.
  [[nodiscard]] ByteStream::Ending ending() const { return ending_.get(); }
  /// receive_some() may give something, or fail, although the socket has nothing.
  [[nodiscard]] bool has_received() const;
  /// Tells the peer that nothing follows, if the socket has room for it.
  void say_goodbye() noexcept;
  /// Whom the peer's verified certificate names: a SAN "URI:sluice:tenant/NAME", else the CN;
  /// empty if it showed none.
  [[nodiscard]] std::string peer_tenant() const;

  /// Bytes after which a direction gets new keys; far below what the ciphers permit (RFC 8446,
  /// 5.5).
  void rekey_after(std::uint64_t bytes) { rekey_bytes_ = bytes; }

  /// Callbacks of the contexts.
  static int note_refused(int is_fine, x509_store_ctx_st* store);
  static int offer_secret(ssl_st* ssl, const evp_md_st* hash, const unsigned char** identity,
                          std::size_t* identity_bytes, ssl_session_st** session);
  static int find_secret(ssl_st* ssl, const unsigned char* identity, std::size_t identity_bytes,
                         ssl_session_st** session);

 private:
  struct FreeSsl {
    void operator()(ssl_st* ssl) const;
  };
  Engine(int fd, Role role) : fd_(fd), role_(role) {}
  Status open(const Context& context);
  static const bio_method_st* bio_methods();
  static int bio_write(bio_st* bio, const char* data, int bytes);
  static int bio_read(bio_st* bio, char* into, int bytes);
  static long bio_control(bio_st* bio, int command, long number, void* pointer);
  void note_failure(int ssl_error);
  [[nodiscard]] Error handshake_error(int ssl_error) const;
  [[nodiscard]] Error certificate_error(long verdict) const;
  Error broken(const char* doing, int ssl_error) const;
  [[nodiscard]] ssl_session_st* session_of_secret() const;
  [[nodiscard]] Status encrypt(std::span<const std::byte> bytes);

  int fd_;
  Role role_;
  std::optional<SessionSecret> secret_;  ///< until the handshake is over
  std::string host_, ca_file_;           ///< for messages
  std::shared_ptr<x509_st> refused_;     ///< the certificate that was not believed
  std::vector<std::byte> in_;            ///< received, not yet taken by OpenSSL
  std::size_t in_begin_ = 0, in_end_ = 0;
  std::vector<std::byte> out_;  ///< encrypted, not yet taken by the socket
  std::size_t out_begin_ = 0;
  std::size_t ahead_ = 0;  ///< bytes that are encrypted and that send_some() has not reported yet
  std::uint64_t rekey_bytes_ = std::uint64_t{64} << 30, since_rekey_bytes_ = 0;
  int socket_errno_ = 0;
  bool is_at_end_ = false, has_said_goodbye_ = false;
  SocketEnding ending_;
  std::optional<Error> failure_;  ///< of receiving or the handshake: from then on the only answer
  std::unique_ptr<ssl_st, FreeSsl> ssl_;  ///< last: it refers to the buffers
};

}  // namespace sluice::transport::tls
