// The client's half of agreeing on UCX (over its own TCP): what was chosen works or is an error,
// what was not chosen falls back to the socket.
#include "joining_thread.h"
#include "protocol/frame_io.h"
#include "shim/ucx_channel.h"
#include "ucx_agreement.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace sluice::shim {
namespace {

namespace ucx = transport::ucx;

wire::Welcome welcome(std::uint64_t features) {
  wire::Welcome out;
  out.feature_bits = features;
  return out;
}

class UcxShim : public transport::testing::UcxAgreement {
 protected:
  /// The client's channel to a worker that offers this; `result_` is what it heard.
  Result<std::unique_ptr<transport::Channel>> open(const wire::UcxOffer& offer,
                                                   TransportChoice choice,
                                                   ucx::Listener* listener = nullptr) {
    EXPECT_TRUE(wire::write_frame(server_.get(), offer));
    const JoiningThread server([&] {
      if (offer.is_accepted == 0) return;
      if (listener != nullptr) {
        EXPECT_TRUE(listener->serve_until_readable(server_.get(), far()));
      }
      const auto frame = wire::read_frame(server_.get(), far());
      ASSERT_TRUE(frame);
      result_ = std::get<wire::UcxResult>(*frame);
      if (listener != nullptr) worker_ = listener->take(server_, result_.uses_staging != 0);
    });
    return open_ucx_channel(*plugin_, std::move(client_), choice);
  }
  static wire::UcxOffer offer(std::uint16_t port, const ucx::Token& token) {
    wire::UcxOffer out;
    out.is_accepted = 1;
    out.host = "127.0.0.1";
    out.port = port;
    out.token = token;
    return out;
  }
  static wire::UcxOffer refusal(const std::string& why) {
    wire::UcxOffer out;
    out.message = why;
    return out;
  }
  /// To a port at which nobody listens.
  wire::UcxOffer unreachable() {
    const auto listener = plugin_->listen("127.0.0.1", {});
    EXPECT_TRUE(listener);
    return offer(listener ? (*listener)->port() : std::uint16_t{1}, {});
  }

  const transport::Address there_ = transport::parse_address("host:1").value();
  wire::UcxResult result_;
  Result<std::unique_ptr<transport::Channel>> worker_;
};

TEST_F(UcxShim, ConnectsToTheWorker) {
  const ucx::Token token = ucx::random_token().value();
  const auto listener = plugin_->listen("127.0.0.1", token);
  ASSERT_TRUE(listener) << listener.error().message;
  const auto channel =
      open(offer((*listener)->port(), token), TransportChoice::kUcx, listener->get());
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_STREQ((*channel)->caps().name, "ucx");
  EXPECT_EQ(result_.is_connected, 1);
  EXPECT_TRUE(worker_);
}

TEST_F(UcxShim, UsesTheWorkersStagingMemoryAndSaysSo) {
  const ucx::Token token = ucx::random_token().value();
  const auto listener = plugin_->listen("127.0.0.1", token);
  ASSERT_TRUE(listener) << listener.error().message;
  const auto memory = (*listener)->offer_staging();
  ASSERT_TRUE(memory) << memory.error().message;
  wire::UcxOffer offered = offer((*listener)->port(), token);
  offered.staging_address = memory->address;
  offered.staging_bytes = memory->bytes;
  offered.staging_key = memory->key;
  const auto channel = open(offered, TransportChoice::kUcx, listener->get());
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_NE((*channel)->remote_staging(), nullptr);
  EXPECT_EQ(result_.uses_staging, 1);
}

TEST_F(UcxShim, StaysWithMessagesWhenTheMemoryIsNotWhatItShouldBe) {
  // Broken: a worker of another release costs the session, or copies go astray.
  const ucx::Token token = ucx::random_token().value();
  const auto listener = plugin_->listen("127.0.0.1", token);
  ASSERT_TRUE(listener) << listener.error().message;
  const auto memory = (*listener)->offer_staging();
  ASSERT_TRUE(memory) << memory.error().message;
  wire::UcxOffer offered = offer((*listener)->port(), token);
  offered.staging_address = memory->address;
  offered.staging_bytes = memory->bytes / 2;
  offered.staging_key = memory->key;
  const auto channel = open(offered, TransportChoice::kUcx, listener->get());
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_EQ((*channel)->remote_staging(), nullptr);
  EXPECT_EQ(result_.is_connected, 1);
  EXPECT_EQ(result_.uses_staging, 0);
}

TEST_F(UcxShim, TellsTheWorkerAndUsesTheSocketWhenNobodyAnswers) {
  // Broken: two hosts with RDMA that are on different fabrics cannot talk at all.
  const auto channel = open(unreachable(), TransportChoice::kAutomatic);
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_STREQ((*channel)->caps().name, "unix");
  EXPECT_EQ(result_.is_connected, 0);
  EXPECT_NE(result_.message, "");
}

TEST_F(UcxShim, AForcedChoiceThatNobodyAnswersIsAnError) {
  const auto channel = open(unreachable(), TransportChoice::kUcx);
  ASSERT_FALSE(channel);
  EXPECT_NE(channel.error().message.find("SLUICE_TRANSPORT=ucx"), std::string::npos);
}

TEST_F(UcxShim, UsesTheSocketWhenTheWorkerRefuses) {
  const auto channel = open(refusal("no device"), TransportChoice::kAutomatic);
  ASSERT_TRUE(channel);
  EXPECT_STREQ((*channel)->caps().name, "unix");
}

TEST_F(UcxShim, AForcedChoiceThatTheWorkerRefusesIsAnErrorWithItsReason) {
  const auto channel = open(refusal("no device there"), TransportChoice::kUcx);
  ASSERT_FALSE(channel);
  EXPECT_NE(channel.error().message.find("no device there"), std::string::npos);
}

TEST_F(UcxShim, IsChosenOnlyWithAServerThatKnowsIt) {
  // Broken: a newer client breaks the protocol with an older server.
  EXPECT_EQ(choose_ucx(there_, welcome(wire::kFeatureUcx), TransportChoice::kUcx).value(), plugin_);
  const auto refused = choose_ucx(there_, welcome(0), TransportChoice::kUcx);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("does not offer"), std::string::npos);
}

TEST_F(UcxShim, IsNotChosenForAnythingElse) {
  const auto all = welcome(~std::uint64_t{0});
  for (const auto choice : {TransportChoice::kTcp, TransportChoice::kShm, TransportChoice::kUnix})
    EXPECT_EQ(choose_ucx(there_, all, choice).value(), nullptr);
  const auto here = transport::parse_address("unix:/run/s").value();
  EXPECT_EQ(choose_ucx(here, all, TransportChoice::kAutomatic).value(), nullptr);
}

TEST_F(UcxShim, RefusesAWishThatUcxCannotFulfilSafely) {
  ::setenv("UCX_TLS", "ud", 1);
  const auto refused = choose_ucx(there_, welcome(wire::kFeatureUcx), TransportChoice::kUcx);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kSystem);
  EXPECT_NE(refused.error().message.find("UCX_TLS=ud"), std::string::npos);
}

}  // namespace
}  // namespace sluice::shim
