// The emulated link: what the conformance suite cannot see is that it takes the time it promises,
// and no more than a link would.
#include "joining_thread.h"
#include "pairs.h"
#include "transport/emulate/emulated_stream.h"
#include "transport/emulate/link.h"
#include "transport/resume/handover.h"
#include "transport/stream/stream_io.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace sluice::transport::testing {
namespace {

using namespace std::chrono_literals;
using emulate::parse_link;

TEST(LinkSpec, TakesEveryPartInAnyOrderAndAlone) {
  const auto all = parse_link("jitter=2ms,bw=1gbit,rtt=30ms");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->rtt, 30ms);
  EXPECT_EQ(all->jitter, 2ms);
  EXPECT_EQ(all->bytes_per_s, 125e6);
  EXPECT_EQ(parse_link("rtt=0.5s")->rtt, 500ms);
  EXPECT_EQ(parse_link("rtt=150us")->rtt, 150us);
  EXPECT_EQ(parse_link("bw=56kbit")->bytes_per_s, 7000);
  EXPECT_EQ(parse_link("bw=100mbit")->rtt, 0ns);
}

TEST(LinkSpec, RefusesWhatItDoesNotUnderstandAndShowsHowItIsWritten) {
  // Broken: a typing error measures the network as it is, and looks like a good result.
  for (const char* text : {"", "rtt", "rtt=", "rtt=ms", "rtt=30", "rtt=30min", "rtt=-1ms",
                           "rtt=nanms", "rtt=30ms,", "rtt=30ms;bw=1gbit", "rtt=30ms,rtt=1ms",
                           "loss=1%", "bw=1gb", "bw=0gbit", "bw=1gbit ", "rtt=11s", "rtt=1e9ms"}) {
    const auto spec = parse_link(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(spec.error().message.find("rtt=30ms,bw=1gbit,jitter=2ms"), std::string::npos);
  }
}

Pair emulated_pair(const std::string& link) {
  auto sockets = make_sockets("unix");
  return {make_stream_channel(make_emulated(std::move(sockets[0]), link)),
          make_socket_channel(std::move(sockets[1]))};
}

void send_pattern(Channel& channel, std::uint64_t offset, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  fill_pattern(offset, data);
  ASSERT_TRUE(channel.write_through(data));
}

TEST(EmulatedLink, ARoundTripTakesItsTime) {
  Pair ends = emulated_pair("rtt=40ms");
  const auto start = Clock::now();
  send_pattern(*ends.client, 0, 10);
  PatternSink up, down;
  ASSERT_TRUE(receive(*ends.server, up, 10));
  EXPECT_GE(Clock::now() - start, 20ms);
  send_pattern(*ends.server, 0, 10);
  ASSERT_TRUE(receive(*ends.client, down, 10));
  EXPECT_GE(Clock::now() - start, 40ms);
}

TEST(EmulatedLink, BothDirectionsHaveTheBandwidthOfTheLink) {
  constexpr std::size_t kBytes = 1'000'000;
  Pair ends = emulated_pair("bw=100mbit");
  for (int way = 0; way < 2; ++way) {
    Channel& from = way == 0 ? *ends.client : *ends.server;
    Channel& to = way == 0 ? *ends.server : *ends.client;
    const auto start = Clock::now();
    const JoiningThread sender([&] { send_pattern(from, 0, kBytes); });
    PatternSink sink;
    ASSERT_TRUE(receive(to, sink, kBytes));
    EXPECT_TRUE(sink.is_intact());
    EXPECT_GE(Clock::now() - start, 80ms);
  }
}

TEST(EmulatedLink, ConnectionsOfAProcessShareItsBandwidth) {
  // Broken: four lanes make an emulated link four times as fast.
  constexpr std::size_t kBytes = 500'000;
  auto link = std::make_shared<emulate::Link>(parse_link("bw=100mbit").value());
  const auto start = Clock::now();
  Deadline last{};
  for (int i = 0; i < 2; ++i) last = link->carry(emulate::Link::Way::kOut, kBytes);
  EXPECT_GE(last - start, 80ms);
}

TEST(EmulatedLink, ManyMessagesAreUnderWayAtOnce) {
  // Broken: the emulator itself has a window, and long links look worse than they are.
  constexpr int kMessages = 40;
  constexpr auto kRtt = 400ms;
  Pair ends = emulated_pair("rtt=400ms,bw=10gbit");
  const auto start = Clock::now();
  // Beside the reader: a far end that does not read keeps 4 MB, and the sender waits for it.
  const JoiningThread sender([&] {
    for (int i = 0; i < kMessages; ++i)
      send_pattern(*ends.client, static_cast<std::uint64_t>(i) * 200'000, 200'000);
  });
  PatternSink sink;
  ASSERT_TRUE(receive(*ends.server, sink, kMessages * 200'000));
  EXPECT_TRUE(sink.is_intact());
  EXPECT_LT(Clock::now() - start, kRtt * kMessages / 4)
      << "one at a time would take four times that";
}

TEST(EmulatedLink, WhatIsUnderWayArrivesAfterItsSenderIsGone) {
  // Broken: the last words of a program on an emulated link are lost.
  Pair ends = emulated_pair("rtt=60ms,jitter=10ms");
  const JoiningThread sender([&] {
    send_pattern(*ends.client, 0, 300'000);
    ends.client.reset();
  });
  PatternSink sink;
  EXPECT_EQ(receive_to_end(*ends.server, sink).code, ErrorCode::kPeerClosed);
  EXPECT_EQ(sink.received(), 300'000U);
  EXPECT_TRUE(sink.is_intact());
}

/// A peer that takes a little each millisecond.
class SlowPeer final : public ByteStream {
 public:
  explicit SlowPeer(std::size_t* taken_bytes) : taken_bytes_(taken_bytes) {}

  Result<std::size_t> send_some(std::span<const std::byte> bytes) override {
    const auto now = Clock::now();
    if (now < next_) return std::size_t{0};
    next_ = now + 1ms;
    const std::size_t taken = std::min<std::size_t>(bytes.size(), 1000);
    *taken_bytes_ += taken;
    return taken;
  }
  Result<std::size_t> receive_some(std::span<std::byte> /*into*/) override {
    return std::size_t{0};
  }
  Result<bool> wait(For /*what*/, Deadline /*deadline*/) override { return true; }
  [[nodiscard]] int fd() const override { return ready_.get(); }
  [[nodiscard]] Kind kind() const override { return {}; }
  void close() noexcept override {}
  void abandon_in_child() noexcept override {}

 private:
  Fd ready_{::eventfd(1, EFD_CLOEXEC)};
  Deadline next_{};
  std::size_t* taken_bytes_;
};

TEST(EmulatedLink, APeerThatReadsSlowlyGetsAllThatWasSent) {
  // Broken: on a loaded machine the end of what a program said is dropped when it closes.
  std::size_t taken_bytes = 0;
  const auto link = std::make_shared<emulate::Link>(parse_link("rtt=1ms").value());
  auto stream =
      emulate::make_emulated_stream(std::make_unique<SlowPeer>(&taken_bytes), link, 20ms).value();
  ASSERT_TRUE(send_all(*stream, std::vector<std::byte>(100'000)));  // a tenth of a second
  stream.reset();
  EXPECT_EQ(taken_bytes, 100'000U);
}

TEST(EmulatedLink, GoesOnOverTheConnectionThatReplacesACutOne) {
  // Broken: the emulator sleeps on the descriptor of a connection that is gone, and the session
  // with it.
  auto first = make_sockets("tcp"), second = make_sockets("tcp");
  auto near = std::make_unique<ResumableStream>(make_socket_stream(std::move(first[0])), false);
  ResumableStream& client = *near;
  ResumableStream server(make_socket_stream(std::move(first[1])), false);
  auto link = std::make_shared<emulate::Link>(parse_link("rtt=2ms").value());
  const auto emulated = emulate::make_emulated_stream(std::move(near), link).value();
  const auto exchange = [&](char text) {
    const std::byte said{static_cast<unsigned char>(text)};
    std::byte heard{};
    for (const auto& [from, to] : {std::pair<ByteStream*, ByteStream*>{emulated.get(), &server},
                                   {&server, emulated.get()}}) {
      ASSERT_TRUE(send_all(*from, {&said, 1}));
      ASSERT_TRUE(receive_all(*to, {&heard, 1}));
      EXPECT_EQ(said, heard);
    }
  };
  exchange('a');
  client.suspend();
  const std::byte under_way{'b'};
  ASSERT_TRUE(send_all(*emulated, {&under_way, 1}));
  {
    const JoiningThread worker([&] {
      const std::atomic<bool> no{false};
      EXPECT_TRUE(resume_from_server(server, make_socket_stream(std::move(second[1])), no));
    });
    std::unique_ptr<ByteStream> next = make_socket_stream(std::move(second[0]));
    ASSERT_TRUE(resume_from_client(client, next, far()));
  }
  std::byte heard{};
  ASSERT_TRUE(receive_all(server, {&heard, 1}));
  EXPECT_EQ(under_way, heard);
  exchange('c');
}

}  // namespace
}  // namespace sluice::transport::testing
