// The client's half of agreeing on a transport: what was chosen is used or refused, what was not
// chosen falls back.
#include "shim/data_channel.h"

#include "protocol/frame_io.h"
#include "protocol/session_secret.h"
#include "shim/tls_library.h"
#include "tests/tls/ends.h"
#include "tests/transport/joining_thread.h"
#include "transport/shm/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

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
                                                   const Answer& answer = accept,
                                                   Resumable* resumable = nullptr) {
    const JoiningThread server([&] { serve(answer); });
    auto channel = open_data_channel(address_, welcome_, choice, false, resumable);
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
  std::vector<int> lanes_;  ///< that were attached
  Fd kept_;
  Fd listener_;

 private:
  void serve(const Answer& answer) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    kept_ = std::move(transport::accept_socket(listener_.get()).value());
    const auto frame = wire::read_frame(kept_.get(), deadline);
    if (!frame) return;
    const auto attach = std::get<wire::Attach>(*frame);
    was_offered_ = attach.offers_shared_memory != 0;
    EXPECT_EQ(attach.lane, 0);
    EXPECT_TRUE(wire::write_frame(kept_.get(), wire::Attached{}));
    for (int i = 0; i < attach.lane_count; ++i) take_lane(deadline);
    if (!was_offered_) return;
    Fd memory;
    const auto offer = wire::read_frame_with(&memory, kept_.get(), deadline);
    ASSERT_TRUE(offer);
    EXPECT_TRUE(shm::adopt_memory(memory.get()));
    EXPECT_TRUE(wire::write_frame(kept_.get(), answer(memory)));
  }
  void take_lane(wire::FrameDeadline deadline) {
    Fd lane = std::move(transport::accept_socket(listener_.get()).value());
    const auto frame = wire::read_frame(lane.get(), deadline);
    ASSERT_TRUE(frame);
    EXPECT_EQ(std::get<wire::Attach>(*frame).session_key, welcome_.session_key);
    lanes_.push_back(std::get<wire::Attach>(*frame).lane);
    EXPECT_TRUE(wire::write_frame(lane.get(), wire::Attached{}));
  }
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

/// A variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST_F(Opening, ASessionOnThisHostHasNoLanesUnlessTheyAreWanted) {
  welcome_.feature_bits |= wire::kFeatureLanes;
  const auto channel = open(TransportChoice::kUnix);
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_TRUE((*channel)->lanes().empty());
}

TEST_F(Opening, ASocketSessionHasLanesBesideIt) {
  const Variable wanted("SLUICE_LANES", "2");
  welcome_.feature_bits |= wire::kFeatureLanes;
  const auto channel = open(TransportChoice::kUnix);
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_EQ((*channel)->lanes().size(), 2U);
  EXPECT_EQ(lanes_, (std::vector<int>{1, 2}));
}

TEST_F(Opening, LanesAreAsManyAsWantedAndNoneWithAnOlderServer) {
  {
    const Variable none("SLUICE_LANES", "4");
    const auto channel = open(TransportChoice::kUnix);  // no feature bit
    ASSERT_TRUE(channel);
    EXPECT_TRUE((*channel)->lanes().empty());
  }
  welcome_.feature_bits |= wire::kFeatureLanes;
  for (const char* count : {"0", "4"}) {
    const Variable lanes("SLUICE_LANES", count);
    const auto channel = open(TransportChoice::kUnix);
    ASSERT_TRUE(channel);
    EXPECT_EQ((*channel)->lanes().size(), static_cast<std::size_t>(*count - '0'));
  }
}

TEST_F(Opening, ASessionThatCanBeResumedHasLanesThatCan) {
  welcome_.feature_bits |= wire::kFeatureLanes;
  const Variable lanes("SLUICE_LANES", "3");
  Resumable resumable;
  const auto channel = open(TransportChoice::kUnix, accept, &resumable);
  ASSERT_TRUE(channel) << channel.error().message;
  ASSERT_EQ((*channel)->lanes().size(), 3U);
  ASSERT_EQ(resumable.data.size(), 4U) << "that for records, too";
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(resumable.data[i + 1], (*channel)->lanes()[i].get()) << "in order";
}

TEST_F(Opening, TheLanesOfAnEncryptedSessionProveTheKeyAndTheirPlaces) {
  // Broken: bulk data crosses the network in the clear, or the key does.
  namespace tls = transport::tls;
  set_tls_library_for_test(tls::linked_library());
  welcome_.feature_bits |= wire::kFeatureLanes | wire::kFeatureTls;
  welcome_.session_id = 7;
  const Variable wanted("SLUICE_LANES", "2");
  const JoiningThread server([&] {
    for (std::uint8_t lane = 0; lane <= 2; ++lane) {
      Fd fd = std::move(transport::accept_socket(listener_.get()).value());
      const auto frame = wire::read_frame(fd.get(), test::far());
      ASSERT_TRUE(frame);
      const auto attach = std::get<wire::Attach>(*frame);
      EXPECT_EQ(attach.session_key, wire::SessionKey{});
      EXPECT_EQ(attach.is_encrypted, 1);
      EXPECT_EQ(attach.lane, lane);
      EXPECT_EQ(attach.lane_count, 2);
      EXPECT_TRUE(wire::write_frame(fd.get(), wire::Attached{}));
      const auto secret = test::secret_of(wire::secret_identity(7, lane, 2), 1);
      EXPECT_TRUE(test::with_secret(tls::Role::kServer, secret)(std::move(fd)));
    }
  });
  const auto channel = open_data_channel(address_, welcome_, TransportChoice::kUnix, true);
  ASSERT_TRUE(channel) << channel.error().message;
  ASSERT_EQ((*channel)->lanes().size(), 2U);
  for (const auto& lane : (*channel)->lanes()) EXPECT_TRUE(lane->kind().encrypted);
}

TEST_F(Opening, ACountOfLanesThatCannotBeIsAnError) {
  for (const char* count : {"5", "-1", "two", "22"}) {
    const Variable lanes("SLUICE_LANES", count);
    const auto channel = open(TransportChoice::kUnix);
    ASSERT_FALSE(channel) << count;
    EXPECT_NE(channel.error().message.find("SLUICE_LANES"), std::string::npos);
  }
}

TEST_F(Opening, SharedMemoryNeedsNoLanes) {
  welcome_.feature_bits |= wire::kFeatureLanes;
  EXPECT_STREQ(name_of(open(TransportChoice::kShm)), "shm");
  EXPECT_TRUE(lanes_.empty());
}

TEST_F(Opening, AnEmulatedLinkIsASocketThatIsFarAway) {
  // Broken: emulation is asked for, and shared memory carries the session at full speed.
  const Variable emulation("SLUICE_EMULATE", "rtt=40ms");
  const auto channel = open(TransportChoice::kAutomatic);
  EXPECT_STREQ(name_of(channel), "unix");
  ASSERT_TRUE(channel);
  const auto start = transport::Clock::now();
  ASSERT_EQ(::write(kept_.get(), "x", 1), 1);
  EXPECT_TRUE((*channel)->wait(start + std::chrono::seconds(60)).value_or(false));
  EXPECT_GE(transport::Clock::now() - start, std::chrono::milliseconds(20));
}

TEST_F(Opening, AnEmulatedLinkThatCannotBeIsAnError) {
  for (const auto& [link, choice] : {std::pair{"rtt=fast", TransportChoice::kAutomatic},
                                     std::pair{"rtt=1ms", TransportChoice::kShm}}) {
    const Variable emulation("SLUICE_EMULATE", link);
    const auto channel = open_data_channel(address_, welcome_, choice);
    ASSERT_FALSE(channel);
    EXPECT_NE(channel.error().message.find("SLUICE_EMULATE"), std::string::npos);
  }
}

}  // namespace
}  // namespace sluice::shim
