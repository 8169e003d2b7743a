#include "server/worker/resumption.h"

#include "transport/resume/handover.h"

#include <gtest/gtest.h>

#include <cstring>

namespace sluice::server {
namespace {

using namespace std::chrono_literals;
using transport::ByteStream;
using transport::Clock;
using transport::ResumableStream;

struct Text final : transport::RecvSink {
  Status on_bytes(std::span<const std::byte> bytes) override {
    received.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  std::string received;
};

/// A client's stream and the worker's channel over the same connection.
class ResumptionTest : public ::testing::Test {
 protected:
  ResumptionTest() {
    const auto any = transport::parse_address("127.0.0.1:0").value();
    listener_ = transport::listen_socket(any, 0).value();
    address_ = transport::bound_address(any, listener_.get()).value();
    auto [client, worker] = connect();
    client_ = std::make_unique<ResumableStream>(std::move(client), true);
    channel_ = resumption_.open(transport::make_socket_stream(std::move(worker)), true);
  }
  std::pair<std::unique_ptr<ByteStream>, Fd> connect() {
    Fd client = transport::connect_socket(address_, 30s).value();
    return {transport::make_socket_stream(std::move(client)),
            transport::accept_socket(listener_.get()).value()};
  }
  /// The client's end of a connection that the worker was given.
  std::unique_ptr<ByteStream> give() {
    auto [client, worker] = connect();
    resumption_.take(std::move(worker));
    return std::move(client);
  }
  Status resume_over(std::unique_ptr<ByteStream> next) {
    return transport::resume_from_client(*client_, next, Clock::now() + 30s);
  }
  void say(const std::string& text) {
    const auto sent = client_->send_some(std::as_bytes(std::span(text)));
    ASSERT_TRUE(sent && *sent == text.size());
  }
  /// What the worker receives until it has so much, or an error.
  Result<std::string> hear(std::size_t bytes) {
    Text text;
    while (text.received.size() < bytes) {
      SLUICE_TRY(const std::size_t got, channel_->poll(text, 1000));
      if (got > 0) continue;
      SLUICE_TRY(const bool is_ready, channel_->wait(Clock::now() + 30s));
      if (!is_ready) return fail(ErrorCode::kTimeout, "nothing arrived");
    }
    return text.received;
  }

  Fd listener_;
  transport::Address address_;
  std::unique_ptr<ResumableStream> client_;
  std::unique_ptr<transport::Channel> channel_;
  Resumption resumption_;  // ends before the channel
};

TEST_F(ResumptionTest, TheSessionGoesOnOverAnotherConnection) {
  say("before,");
  client_->suspend();
  const Status done = resume_over(give());
  ASSERT_TRUE(done) << done.error().message;
  say("after");
  EXPECT_EQ("before,after", hear(12).value_or(""));
}

TEST_F(ResumptionTest, AConnectionThatSaysNothingIsSupersededByTheNext) {
  // Broken: a cut while the connection is being replaced wedges the session, and the worker.
  say("before,");
  client_->suspend();
  const auto silent = give();
  ASSERT_TRUE(resume_over(give()));
  say("after");
  EXPECT_EQ("before,after", hear(12).value_or(""));
}

TEST_F(ResumptionTest, ACountThatCannotBeEndsTheSession) {
  // Broken: a hostile client makes the worker read beyond what it keeps.
  client_->suspend();
  const auto liar = give();
  const std::vector<std::byte> count(8, std::byte{0xff});
  ASSERT_TRUE(liar->send_some(count));
  const auto heard = hear(1);
  ASSERT_FALSE(heard);
  EXPECT_EQ(ErrorCode::kPeerClosed, heard.error().code);
}

}  // namespace
}  // namespace sluice::server
