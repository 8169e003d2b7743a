// A broker with a certificate, and clients that speak TLS by hand.
#pragma once

#include "broker_fixture.h"
#include "protocol/stream_frames.h"
#include "tests/tls/certificates.h"

namespace sluice::server {

namespace tls = transport::tls;
using Stream = std::unique_ptr<transport::ByteStream>;

class Encryption : public BrokerFixture {
 protected:
  Encryption() {
    config_.listen.push_back(transport::parse_address("127.0.0.1:0").value());
    config_.tls = files_.server(true);
    add_tenant("wary");
  }

  [[nodiscard]] transport::Address tcp() const {
    return transport::parse_address(broker_->addresses().back()).value();
  }
  [[nodiscard]] Peer connect_tcp() const {
    return {std::move(transport::connect_socket(tcp(), 5s).value())};
  }
  [[nodiscard]] Result<Stream> connect_tls(const std::string& own = "") const {
    return tls::linked_library().connect(connect_tcp().fd, files_.client("127.0.0.1", own), far());
  }
  static transport::Deadline far() { return transport::Clock::now() + kPatience; }
  /// The answer, or kPeerClosed.
  static Result<wire::Frame> ask_over(transport::ByteStream& stream, const wire::Frame& question) {
    SLUICE_CHECK(wire::write_frame_to(stream, question));
    return wire::read_frame_from(stream, far());
  }
  static std::string refusal_in(const Result<wire::Frame>& frame) {
    if (!frame) return frame.error().message;
    const auto* refusal = std::get_if<wire::Refusal>(&*frame);
    return refusal != nullptr ? refusal->message : "";
  }
  struct Opened {
    Stream life_line;
    wire::Welcome welcome;
  };
  Opened open_encrypted(const std::string& tenant) {
    Opened out;
    auto stream = connect_tls();
    EXPECT_TRUE(stream.has_value()) << stream.error().message;
    out.life_line = std::move(*stream);
    const auto answer = ask_over(*out.life_line, hello_of(tenant));
    EXPECT_TRUE(answer && std::holds_alternative<wire::Welcome>(*answer)) << refusal_in(answer);
    out.welcome = std::get<wire::Welcome>(*answer);
    return out;
  }
  [[nodiscard]] Peer attach(std::uint64_t session, bool is_resumable = false) const {
    Peer peer = connect_tcp();
    wire::Attach frame;
    frame.is_encrypted = 1;
    frame.session_id = session;
    frame.is_resumable = is_resumable ? 1 : 0;
    peer.say(frame);
    return peer;
  }

  test::Certificates files_;
};

}  // namespace sluice::server
