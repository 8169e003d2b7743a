// The client's half of agreeing on a transport: what was chosen is used or refused, what was not
// chosen falls back.
#include "shim/data_channel.h"

#include "protocol/frame_io.h"
#include "tests/transport/joining_thread.h"
#include "transport/shm/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

namespace sluice::shim {
namespace {

namespace shm = transport::shm;
using transport::Address;

Address address_of(const std::string& text) {
  return transport::parse_address(text).value();
}

TEST(TransportChoice, FitsTheAddressOrIsRefused) {
  // Broken: a user who forces shared memory gets TCP and never learns why it is slow.
  const Address here = address_of("unix:/run/s"), there = address_of("host:1");
  EXPECT_EQ(parse_transport("", here).value(), TransportChoice::kAutomatic);
  EXPECT_EQ(parse_transport("shm", here).value(), TransportChoice::kShm);
  EXPECT_EQ(parse_transport("unix", here).value(), TransportChoice::kUnix);
  EXPECT_EQ(parse_transport("tcp", there).value(), TransportChoice::kTcp);
  EXPECT_EQ(parse_transport("ucx", there).value(), TransportChoice::kUcx);
  for (const auto& [text, address] :
       {std::pair{"tcp", here}, std::pair{"ucx", here}, std::pair{"shm", there},
        std::pair{"unix", there}, std::pair{"pigeon", here}}) {
    const auto choice = parse_transport(text, address);
    ASSERT_FALSE(choice) << text;
    EXPECT_NE(choice.error().message.find("SLUICE_TRANSPORT"), std::string::npos);
  }
}

/// A server that attaches one client and answers its offer.
class Opening : public ::testing::Test {
 protected:
  using Answer = std::function<wire::SharedMemoryAnswer(const Fd& memory)>;

  Opening() {
    folder_ = ::mkdtemp(name_.data());
    address_ = address_of("unix:" + folder_ + "/s");
    listener_ = std::move(transport::listen_socket(address_, 0).value());
    welcome_.session_key.fill(1);
    welcome_.feature_bits = wire::kFeatureSharedMemory;
  }
  ~Opening() override {
    ::unlink((folder_ + "/s").c_str());
    ::rmdir(folder_.c_str());
  }

  Result<std::unique_ptr<transport::Channel>> open(TransportChoice choice,
                                                   const Answer& answer = accept) {
    const JoiningThread server([&] { serve(answer); });
    auto channel = open_data_channel(address_, welcome_, choice);
    if (!channel) {
      // Whatever it did not say, the server need not wait for.
      static_cast<void>(transport::connect_socket(address_, std::chrono::seconds(5)));
    }
    return channel;
  }
  static wire::SharedMemoryAnswer accept(const Fd&) { return {1, ""}; }

  std::string name_ = "/tmp/sluice-open-XXXXXX", folder_;
  Address address_;
  wire::Welcome welcome_;
  bool was_offered_ = false;
  Fd kept_;

 private:
  void serve(const Answer& answer) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    kept_ = std::move(transport::accept_socket(listener_.get()).value());
    const auto frame = wire::read_frame(kept_.get(), deadline);
    if (!frame) return;
    was_offered_ = std::get<wire::Attach>(*frame).offers_shared_memory != 0;
    EXPECT_TRUE(wire::write_frame(kept_.get(), wire::Attached{}));
    if (!was_offered_) return;
    Fd memory;
    const auto offer = wire::read_frame_with(&memory, kept_.get(), deadline);
    ASSERT_TRUE(offer);
    EXPECT_TRUE(shm::adopt_memory(memory.get()));
    EXPECT_TRUE(wire::write_frame(kept_.get(), answer(memory)));
  }
  Fd listener_;
};

const char* name_of(const Result<std::unique_ptr<transport::Channel>>& channel) {
  return channel ? (*channel)->caps().name : channel.error().message.c_str();
}

TEST_F(Opening, SharedMemoryIsTheAutomaticChoiceOnThisHost) {
  EXPECT_STREQ(name_of(open(TransportChoice::kAutomatic)), "shm");
}

TEST_F(Opening, TheSocketIsUsedWhenItIsChosen) {
  EXPECT_STREQ(name_of(open(TransportChoice::kUnix)), "unix");
  EXPECT_FALSE(was_offered_);
}

TEST_F(Opening, AnAutomaticChoiceFallsBackWhenTheServerRefuses) {
  const auto refuse = [](const Fd&) { return wire::SharedMemoryAnswer{0, "limits"}; };
  const auto channel = open(TransportChoice::kAutomatic, refuse);
  EXPECT_STREQ(name_of(channel), "unix");
  // The memory that was given up must not have closed the socket.
  ASSERT_TRUE(channel);
  ASSERT_EQ(::write(kept_.get(), "x", 1), 1);
  EXPECT_TRUE((*channel)->wait(transport::Clock::now() + std::chrono::seconds(60)).value_or(false));
}

TEST_F(Opening, AForcedChoiceThatTheServerRefusesIsAnErrorWithItsReason) {
  const auto refuse = [](const Fd&) { return wire::SharedMemoryAnswer{0, "its limits"}; };
  const auto channel = open(TransportChoice::kShm, refuse);
  ASSERT_FALSE(channel);
  EXPECT_NE(channel.error().message.find("its limits"), std::string::npos);
}

TEST_F(Opening, AnOlderServerGetsNoOffer) {
  // Broken: a newer client and an older server on one host cannot talk.
  welcome_.feature_bits = 0;
  EXPECT_STREQ(name_of(open(TransportChoice::kAutomatic)), "unix");
  EXPECT_FALSE(was_offered_);
  EXPECT_FALSE(open(TransportChoice::kShm));
}

TEST_F(Opening, ALimitOfThisProcessMakesItFallBackAndHarmsNothing) {
  // Broken: a program started under `ulimit -f` dies of SIGXFSZ in cuInit.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = shm::kMemoryBytes - 1;  // enough for what the test itself prints
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto automatic = open(TransportChoice::kAutomatic);
  const auto forced = open(TransportChoice::kShm);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_STREQ(name_of(automatic), "unix");
  ASSERT_FALSE(forced);
  EXPECT_NE(forced.error().message.find("ulimit"), std::string::npos) << forced.error().message;
}

}  // namespace
}  // namespace sluice::shim
