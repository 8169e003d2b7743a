// The worker's half of agreeing on UCX (over its own TCP): who connects and knows the token is
// carried, everybody else is not, and the socket takes over.
#include "joining_thread.h"
#include "protocol/frame_io.h"
#include "server/worker/ucx_channel.h"
#include "ucx_agreement.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace sluice::server {
namespace {

namespace ucx = transport::ucx;

class UcxWorker : public transport::testing::UcxAgreement {
 protected:
  wire::UcxOffer read_offer() {
    const auto frame = wire::read_frame(client_.get(), far());
    const auto* offer = frame ? std::get_if<wire::UcxOffer>(&*frame) : nullptr;
    EXPECT_NE(offer, nullptr);
    return offer != nullptr ? *offer : wire::UcxOffer{};
  }
  /// The worker's channel, while `client` does the client's part.
  template <class Client>
  Result<std::unique_ptr<transport::Channel>> open(const Client& client) {
    const JoiningThread thread(client);
    return open_ucx_channel(std::move(server_));
  }
  void expect_the_socket(const Result<std::unique_ptr<transport::Channel>>& channel) {
    ASSERT_TRUE(channel) << channel.error().message;
    EXPECT_STREQ((*channel)->caps().name, "unix");
    ASSERT_EQ(::send(client_.get(), "x", 1, 0), 1);
    EXPECT_TRUE((*channel)->wait(far()).value_or(false));
  }
};

TEST_F(UcxWorker, CarriesAClientThatConnects) {
  std::unique_ptr<transport::Channel> client;
  const auto channel = open([&] {
    const auto offer = read_offer();
    EXPECT_EQ(offer.is_accepted, 1) << offer.message;
    auto made = plugin_->connect(offer.host, offer.port, offer.token, client_, far());
    ASSERT_TRUE(made) << made.error().message;
    client = std::move(*made);
    EXPECT_TRUE(wire::write_frame(client_.get(), wire::UcxResult{1, "", 0}));
  });
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_STREQ((*channel)->caps().name, "ucx");
  ASSERT_EQ(client->reserve(8).size(), 8U);
  client->commit(8, transport::FlushHint::kNow);
  EXPECT_TRUE((*channel)->wait(far()).value_or(false));
}

/// Does the client's part, with the staging memory that the worker offers.
std::unique_ptr<transport::Channel> connect_staged(ucx::Plugin& plugin, const wire::UcxOffer& offer,
                                                   const Fd& socket, transport::Deadline deadline) {
  const ucx::StagingOffer staging{offer.staging_address, offer.staging_bytes, offer.staging_key};
  std::string no_staging;
  auto made =
      plugin.connect(offer.host, offer.port, offer.token, socket, deadline, &staging, &no_staging);
  EXPECT_TRUE(made) << made.error().message;
  EXPECT_EQ(no_staging, "");
  return made ? std::move(*made) : nullptr;
}

TEST_F(UcxWorker, OffersItsStagingMemoryAndNothingElse) {
  std::unique_ptr<transport::Channel> client;
  const auto channel = open([&] {
    client = connect_staged(*plugin_, read_offer(), client_, far());
    ASSERT_NE(client, nullptr);
    EXPECT_TRUE(wire::write_frame(client_.get(), wire::UcxResult{1, "", 1}));
  });
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_EQ((*channel)->staging().size(), ucx::kStagingBytes);
  EXPECT_EQ(client->staging().size(), ucx::kStagingBytes);
  EXPECT_NE(client->staging().data(), (*channel)->staging().data());
}

TEST_F(UcxWorker, GivesUpMemoryThatTheClientDoesNotUse) {
  // Broken: with every older client the worker keeps 8 MiB of locked memory, or believes that
  // copies come through it.
  std::unique_ptr<transport::Channel> client;
  const auto channel = open([&] {
    const auto offer = read_offer();
    EXPECT_NE(offer.staging_key, "");
    auto made = plugin_->connect(offer.host, offer.port, offer.token, client_, far());
    ASSERT_TRUE(made) << made.error().message;
    client = std::move(*made);
    EXPECT_TRUE(client->staging().empty());
    EXPECT_TRUE(wire::write_frame(client_.get(), wire::UcxResult{1, "", 0}));
  });
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_TRUE((*channel)->staging().empty());
}

TEST_F(UcxWorker, UsesTheSocketForAClientThatCannotConnect) {
  // Broken: a firewall between the RDMA addresses costs the session.
  expect_the_socket(open([&] {
    read_offer();
    EXPECT_TRUE(wire::write_frame(client_.get(), wire::UcxResult{0, "no route", 0}));
  }));
}

TEST_F(UcxWorker, DoesNotLetInWhoHasAnotherToken) {
  // Broken: whoever reaches the port reads another user's data.
  const auto channel = open([&] {
    const auto offer = read_offer();
    ucx::Token wrong = offer.token;
    wrong[7] ^= 1;
    const auto made = plugin_->connect(offer.host, offer.port, wrong, client_,
                                       transport::Clock::now() + std::chrono::milliseconds(300));
    EXPECT_FALSE(made);
    EXPECT_TRUE(wire::write_frame(client_.get(), wire::UcxResult{1, "", 0}));
  });
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code, ErrorCode::kNotFound);
}

TEST_F(UcxWorker, AStrangerWhoConnectsFirstKeepsNobodyOut) {
  // Broken: a port scan while a session opens makes it fail.
  std::unique_ptr<transport::Channel> client;
  const auto channel = open([&] {
    const auto offer = read_offer();
    EXPECT_FALSE(plugin_->connect(offer.host, offer.port, ucx::Token{}, client_,
                                  transport::Clock::now() + std::chrono::milliseconds(200)));
    auto made = plugin_->connect(offer.host, offer.port, offer.token, client_, far());
    ASSERT_TRUE(made) << made.error().message;
    client = std::move(*made);
    EXPECT_TRUE(wire::write_frame(client_.get(), wire::UcxResult{1, "", 0}));
  });
  EXPECT_TRUE(channel);
}

TEST_F(UcxWorker, AnythingElseThanTheResultEndsTheSession) {
  const auto channel = open([&] {
    read_offer();
    EXPECT_TRUE(wire::write_frame(client_.get(), wire::Attached{}));
  });
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code, ErrorCode::kProtocol);
}

TEST_F(UcxWorker, AClientThatIsGoneEndsTheSession) {
  // Broken: the worker of a client that died while connecting stays.
  const auto channel = open([&] {
    read_offer();
    client_.reset();
  });
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code, ErrorCode::kPeerClosed);
}

TEST_F(UcxWorker, SaysWhyItRefusesAndUsesTheSocket) {
  ::setenv("UCX_TLS", "ud", 1);
  expect_the_socket(open([&] {
    const auto offer = read_offer();
    EXPECT_EQ(offer.is_accepted, 0);
    EXPECT_NE(offer.message.find("\"ud\""), std::string::npos) << offer.message;
  }));
}

}  // namespace
}  // namespace sluice::server
