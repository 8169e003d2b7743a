#include "transport/tls/engine.h"

#include "common/format.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sluice::transport::tls {
namespace {

constexpr std::size_t kReceiveBytes = 128 * 1024;
constexpr std::size_t kBatchBytes = 64 * 1024;

bool is_ip_address(const std::string& host) {
  ASN1_OCTET_STRING* const address = a2i_IPADDRESS(host.c_str());
  ASN1_OCTET_STRING_free(address);
  return address != nullptr;
}

}  // namespace

void Engine::FreeSsl::operator()(ssl_st* ssl) const {
  SSL_free(ssl);
}

Engine::~Engine() {
  if (secret_) OPENSSL_cleanse(secret_->key.data(), secret_->key.size());
}

// ---- OpenSSL's view of the connection

const bio_method_st* Engine::bio_methods() {
  static BIO_METHOD* const methods = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "sluice");
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    BIO_meth_set_create(made, [](BIO* bio) {
      BIO_set_init(bio, 1);
      return 1;
    });
    return made;
  }();
  return methods;
}

int Engine::bio_write(BIO* bio, const char* data, int bytes) {
  auto* const engine = static_cast<Engine*>(BIO_get_data(bio));
  const auto* const from = reinterpret_cast<const std::byte*>(data);
  engine->out_.insert(engine->out_.end(), from, from + bytes);
  return bytes;
}

int Engine::bio_read(BIO* bio, char* into, int bytes) {
  auto* const engine = static_cast<Engine*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (engine->in_begin_ == engine->in_end_) {
    engine->in_.resize(kReceiveBytes);
    ssize_t got = 0;
    do {
      got = ::recv(engine->fd_, engine->in_.data(), engine->in_.size(), MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      BIO_set_retry_read(bio);
      return -1;
    }
    engine->is_at_end_ = got == 0;
    if (got <= 0) {
      engine->socket_errno_ = got < 0 ? errno : 0;
      if (got < 0)
        engine->ending_.note_error(errno);
      else
        engine->ending_.note_end(engine->fd_, engine->has_said_goodbye_);
      return static_cast<int>(got);
    }
    engine->in_begin_ = 0;
    engine->in_end_ = static_cast<std::size_t>(got);
  }
  const std::size_t piece =
      std::min(static_cast<std::size_t>(bytes), engine->in_end_ - engine->in_begin_);
  std::memcpy(into, engine->in_.data() + engine->in_begin_, piece);
  engine->in_begin_ += piece;
  return static_cast<int>(piece);
}

long Engine::bio_control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return static_cast<Engine*>(BIO_get_data(bio))->is_at_end_ ? 1 : 0;
  return 0;
}

// ---- making one

Status Engine::open(const Context& context) {
  ssl_.reset(SSL_new(context.get()));
  BIO* const bio = ssl_ != nullptr ? BIO_new(bio_methods()) : nullptr;
  if (bio == nullptr) return fail(ErrorCode::kInternal, "TLS: no memory for a connection");
  BIO_set_data(bio, this);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
  out_.reserve(kBatchBytes + kBatchBytes / 16);
  if (role_ == Role::kClient)
    SSL_set_connect_state(ssl_.get());
  else
    SSL_set_accept_state(ssl_.get());
  return {};
}

Result<std::unique_ptr<Engine>> Engine::client(const Context& context, int fd,
                                               const ClientSettings& settings) {
  std::unique_ptr<Engine> out(new Engine(fd, Role::kClient));
  SLUICE_CHECK(out->open(context));
  out->host_ = settings.host;
  out->ca_file_ = settings.ca_file;
  SSL* const ssl = out->ssl_.get();
  const bool is_set =
      is_ip_address(settings.host)
          ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), settings.host.c_str()) == 1
          : !settings.host.empty() && SSL_set1_host(ssl, settings.host.c_str()) == 1 &&
                SSL_set_tlsext_host_name(ssl, settings.host.c_str()) == 1;
  if (!is_set)
    return fail(
        ErrorCode::kInvalidArgument,
        format("TLS: \"{}\" is no host name that a certificate could be for", settings.host));
  return out;
}

Result<std::unique_ptr<Engine>> Engine::server(const Context& context, int fd) {
  std::unique_ptr<Engine> out(new Engine(fd, Role::kServer));
  SLUICE_CHECK(out->open(context));
  return out;
}

Result<std::unique_ptr<Engine>> Engine::session(Role role, int fd, SessionSecret secret) {
  SLUICE_TRY(const Context context, session_context(role));
  std::unique_ptr<Engine> out(new Engine(fd, role));
  SLUICE_CHECK(out->open(context));
  out->secret_ = std::move(secret);
  return out;
}

// ---- bytes

Status Engine::flush() {
  while (has_unsent()) {
    const ssize_t sent = ::send(fd_, out_.data() + out_begin_, out_.size() - out_begin_,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      out_begin_ += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return {};
    } else if (errno != EINTR) {
      ending_.note_error(errno);
      return fail(ErrorCode::kPeerClosed, std::string("sending: ") + std::strerror(errno));
    }
  }
  out_.clear();
  out_begin_ = 0;
  return {};
}

Status Engine::encrypt(std::span<const std::byte> bytes) {
  ERR_clear_error();
  since_rekey_bytes_ += bytes.size();
  if (since_rekey_bytes_ > rekey_bytes_) {
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    since_rekey_bytes_ = 0;
  }
  std::size_t taken = 0;
  if (SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &taken) == 1) return {};
  return fail(broken("sending", SSL_get_error(ssl_.get(), 0)));
}

Result<std::size_t> Engine::send_some(std::span<const std::byte> bytes) {
  SLUICE_CHECK(flush());
  if (has_unsent() || bytes.empty()) return std::size_t{0};
  if (ahead_ == 0) {
    const auto batch = bytes.first(std::min(bytes.size(), kBatchBytes));
    SLUICE_CHECK(encrypt(batch));
    ahead_ = batch.size();
    SLUICE_CHECK(flush());
    if (has_unsent()) return std::size_t{0};
  }
  const std::size_t taken = std::min(ahead_, bytes.size());
  ahead_ -= taken;
  return taken;
}

Result<std::size_t> Engine::receive_some(std::span<std::byte> into) {
  std::size_t total = 0;
  while (total < into.size() && !failure_) {
    ERR_clear_error();
    std::size_t got = 0;
    if (SSL_read_ex(ssl_.get(), into.data() + total, into.size() - total, &got) == 1) {
      total += got;
      continue;
    }
    const int error = SSL_get_error(ssl_.get(), 0);
    if (error == SSL_ERROR_WANT_READ) break;
    note_failure(error);
  }
  // TLS's own answers, and the alert that says why we go on no more. Where they cannot be sent,
  // what was decrypted is given all the same: nobody would send it again.
  const Status sent = has_unsent_of_its_own() ? flush() : Status{};
  if (total > 0) return total;
  if (failure_) return fail(*failure_);
  SLUICE_CHECK(sent);
  return std::size_t{0};
}

void Engine::note_failure(int ssl_error) {
  if (ssl_error == SSL_ERROR_ZERO_RETURN) {
    ending_.note(ByteStream::Ending::kOrderly);
    failure_ = Error{ErrorCode::kPeerClosed, "the peer closed the connection"};
    return;
  }
  failure_ = broken("the connection broke", ssl_error);
  // An end or an error of the socket has been noted; anything else are bytes that nobody who has
  // the keys has sent.
  ending_.note(ByteStream::Ending::kReset);
}

bool Engine::has_received() const {
  // Not SSL_has_pending(): half a record is nothing that anybody could be given.
  return failure_ || in_begin_ < in_end_ || SSL_pending(ssl_.get()) > 0;
}

void Engine::say_goodbye() noexcept {
  if (failure_ || SSL_is_init_finished(ssl_.get()) == 0) return;
  has_said_goodbye_ = true;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  static_cast<void>(flush());
}

}  // namespace sluice::transport::tls
