// A channel over a stream of bytes. Payloads go through one small send buffer that stays hot in the
// cache: handing large, cold user buffers to the host kernel costs several times more than copying
// them through it (measured: bench/transport_bench.cpp).
#include "transport/batching_channel.h"
#include "transport/stream/byte_stream.h"
#include "transport/stream/stream_io.h"

#include <algorithm>
#include <atomic>
#include <vector>

namespace sluice::transport {
namespace {

constexpr std::size_t kSendBufferBytes = 64 * 1024;
static_assert(kSendBufferBytes <= ByteStream::kLentBytesMin);
constexpr std::size_t kReceiveBufferBytes = 256 * 1024;

/// own_send_ belongs to the sending side, receive_ to the receiving side.
class StreamChannel final : public BatchingChannel {
 public:
  StreamChannel(std::unique_ptr<ByteStream> stream, Lanes lanes)
      : stream_(std::move(stream)), lanes_(std::move(lanes)), receive_(kReceiveBufferBytes) {
    gather_in(send_buffer());
  }

  Result<std::size_t> poll(RecvSink& sink, std::size_t budget_bytes) override {
    std::size_t total = 0;
    while (total < budget_bytes) {
      const std::size_t wanted = std::min(receive_.size(), budget_bytes - total);
      const auto got = stream_->receive_some({receive_.data(), wanted});
      if (!got && total > 0) break;  // the next poll() tells
      if (!got) return fail(got.error());
      if (*got == 0) break;
      SLUICE_CHECK(sink.on_bytes({receive_.data(), *got}));
      total += *got;
      if (*got < wanted && !stream_->kind().encrypted) break;
    }
    return total;
  }

  Result<bool> wait(Deadline deadline) override {
    return stream_->wait(ByteStream::For::kReceive, deadline);
  }

  [[nodiscard]] int wait_fd() const override { return stream_->fd(); }

  [[nodiscard]] Caps caps() const override {
    const ByteStream::Kind kind = stream_->kind();
    return Caps{.reserve_bytes_max = kSendBufferBytes,
                .same_host = kind.same_host,
                .encrypted = kind.encrypted,
                .name = kind.name};
  }

  [[nodiscard]] std::span<const std::unique_ptr<ByteStream>> lanes() override { return lanes_; }

  void close() noexcept override {
    is_closed_ = true;
    stream_->close();
    for (const auto& lane : lanes_) lane->close();
  }
  void abandon_in_child() noexcept override {
    stream_->abandon_in_child();
    for (const auto& lane : lanes_) lane->abandon_in_child();
  }

 private:
  Status send_batch(std::span<const std::byte> bytes) override {
    if (is_closed_) return fail(ErrorCode::kPeerClosed, "sending: this channel is closed");
    return transport::send_all(*stream_, bytes, [this] {
      while_blocked();
      return Status();
    });
  }

  std::span<std::byte> next_batch(std::span<std::byte> /*sent*/) override { return send_buffer(); }

  std::span<std::byte> send_buffer() {
    std::span<std::byte> lent = stream_->send_buffer();
    if (lent.empty()) {
      own_send_.resize(kSendBufferBytes);
      lent = own_send_;
    }
    return lent.first(kSendBufferBytes);
  }

  std::unique_ptr<ByteStream> stream_;
  Lanes lanes_;
  std::atomic<bool> is_closed_{false};
  std::vector<std::byte> own_send_;  ///< if the stream lends none
  std::vector<std::byte> receive_;
};

}  // namespace

std::unique_ptr<Channel> make_stream_channel(std::unique_ptr<ByteStream> stream, Lanes lanes) {
  return std::make_unique<StreamChannel>(std::move(stream), std::move(lanes));
}

std::unique_ptr<Channel> make_socket_channel(Fd socket) {
  return make_stream_channel(make_socket_stream(std::move(socket)));
}

}  // namespace sluice::transport
