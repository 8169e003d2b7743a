// Clients that only look at their tenant's slice: they see what is theirs and nothing else, take
// nobody's place, and start nothing.
#include "broker_fixture.h"
#include "protocol/slice_status.h"

#include <sys/stat.h>

#include <utility>
#include <vector>

namespace sluice::server {
namespace {

using Code = wire::RefusalCode;

wire::Hello looking(const std::string& tenant, const std::string& token = kToken) {
  wire::Hello hello = hello_of(tenant, token);
  hello.feature_bits = wire::kFeatureCheckOnly | wire::kFeatureSliceStatus;
  return hello;
}

class Observers : public BrokerFixture {
 protected:
  /// A connection that may ask.
  [[nodiscard]] Peer look_at(const std::string& tenant) const {
    Peer peer = greet(looking(tenant));
    const auto welcome = peer.hear_a<wire::Welcome>();
    EXPECT_TRUE(welcome.has_value());
    if (welcome) {
      EXPECT_NE(0u, welcome->feature_bits & wire::kFeatureSliceStatus);
      EXPECT_EQ(0u, welcome->session_id);
    }
    return peer;
  }
  static wire::SliceStatus ask_slice(const Peer& peer, bool wants_identity = false) {
    peer.say(wire::SliceQuery{static_cast<std::uint8_t>(wants_identity)});
    auto status = peer.hear_a<wire::SliceStatus>();
    EXPECT_TRUE(status.has_value());
    return status.value_or(wire::SliceStatus{});
  }
  wire::SliceStatus slice_of(const std::string& tenant) const { return ask_slice(look_at(tenant)); }
};

TEST_F(Observers, DevicesAreKnownWithoutASession) {
  start();
  const Peer peer = look_at("good");
  const wire::SliceStatus status = ask_slice(peer, true);
  ASSERT_EQ(1u, status.devices.size());
  EXPECT_EQ("a fake device", status.devices[0].name);
  EXPECT_EQ(1u << 20, status.devices[0].total_bytes) << "the slice, not the device";
  EXPECT_EQ(0u, status.devices[0].used_bytes);
  EXPECT_TRUE(status.sessions.empty());
  EXPECT_EQ("good", status.tenant);
  EXPECT_EQ(1'000'000u, status.limit_ppm);
  EXPECT_EQ("standard", status.share_class);
  EXPECT_EQ(13000, status.driver_version);
  EXPECT_EQ("", ask_slice(peer).devices.at(0).name) << "only who asks for it is told";
  EXPECT_EQ(0u, session_count());
}

TEST_F(Observers, TheDriverIsAskedForItsDevicesOnce) {
  // Broken: every start of a monitor loads the driver.
  worker_ = folder_ + "/counting";
  std::ofstream(worker_) << "#!/bin/sh\necho x >>" << folder_ << "/starts\nexec "
                         << SLUICE_FAKE_WORKER << "\n";
  ::chmod(worker_.c_str(), 0700);
  start();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(1u, slice_of(i % 2 == 0 ? "good" : "other").devices.size());
  EXPECT_EQ(2u, std::filesystem::file_size(folder_ + "/starts"));
}

TEST_F(Observers, ADriverThatCannotBeLoadedIsNamed) {
  worker_ = "/bin/false";
  start();
  const wire::SliceStatus status = slice_of("good");
  EXPECT_TRUE(status.devices.empty());
  EXPECT_NE(std::string::npos, status.problem.find("log")) << status.problem;
}

TEST_F(Observers, ADriverThatCouldNotBeLoadedIsTriedAgain) {
  // Broken: once it has failed, whoever asks later waits for ever, or sees no devices for ever.
  worker_ = folder_ + "/late";
  times_.inventory_retry = 0ms;
  start();
  const Peer peer = look_at("good");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(ask_slice(peer).devices.empty());
    EXPECT_NE("", ask_slice(peer).problem);
  }
  std::filesystem::create_symlink(SLUICE_FAKE_WORKER, worker_);
  const wire::SliceStatus status = ask_slice(peer);
  EXPECT_EQ(1u, status.devices.size());
  EXPECT_EQ("", status.problem);
}

TEST_F(Observers, WhatASessionKeepsIsFreeToWhoeverLooks) {
  start();
  const Client mine = open("good");
  ASSERT_EQ('1', mine.data.command('c', 5000));
  ASSERT_EQ('k', mine.data.command('k', 3000));
  const Peer peer = look_at("good");
  EXPECT_TRUE(eventually([&] { return ask_slice(peer).devices.at(0).used_bytes == 2000; }));
  const wire::SliceStatus status = ask_slice(peer);
  ASSERT_EQ(1u, status.sessions.size());
  EXPECT_EQ(2000u, status.sessions[0].uses.at(0).memory_bytes);
  EXPECT_EQ(3000u, status.sessions[0].uses.at(0).spare_bytes);
}

TEST_F(Observers, ATenantSeesItsOwnSessionsAndNobodyElses) {
  start();
  const Client mine = open("good"), theirs = open("other");
  ASSERT_EQ('1', mine.data.command('c', 1000));
  ASSERT_EQ('1', theirs.data.command('c', 5000));
  const Peer peer = look_at("good");
  const wire::SliceStatus status = ask_slice(peer, true);
  EXPECT_EQ(1000u, status.devices.at(0).used_bytes);
  ASSERT_EQ(1u, status.sessions.size());
  EXPECT_EQ(mine.welcome.session_id, status.sessions[0].session_id);
  EXPECT_EQ(4711, status.sessions[0].pid);
  EXPECT_EQ("test", status.sessions[0].host);
  EXPECT_EQ("program", status.sessions[0].program);
  ASSERT_EQ(1u, status.sessions[0].uses.size());
  EXPECT_EQ(1000u, status.sessions[0].uses[0].memory_bytes);
  // Nothing in the whole answer is the other's.
  const auto bytes = wire::encode_frame(wire::Frame(status));
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(std::string::npos, text.find("other"));
  ASSERT_EQ('1', mine.data.command('c', 24));
  EXPECT_EQ(1024u, ask_slice(peer).devices.at(0).used_bytes) << "the connection stays open";
}

TEST_F(Observers, ANewLimitIsSeenAtOnce) {
  start();
  const Peer peer = look_at("good");
  EXPECT_EQ(1u << 20, ask_slice(peer).devices.at(0).total_bytes);
  config::TenantOverride change;
  change.memory_limit_bytes = 4096;
  ASSERT_TRUE(ask([&](Broker& b) { return b.set_tenant("good", change); }).has_value());
  EXPECT_EQ(4096u, ask_slice(peer).devices.at(0).total_bytes);
}

TEST_F(Observers, ATenantThatHasAllItsSessionsMayStillLook) {
  // Broken: nvidia-smi says "no GPU" exactly when somebody wants to know why there is none left.
  add_tenant("small").max_sessions = 1;
  start();
  const Client only = open("small");
  EXPECT_EQ(Code::kTenantFull, refusal_of(hello_of("small")).code);
  EXPECT_EQ(1u, slice_of("small").sessions.size());
}

TEST_F(Observers, NobodyLooksWithoutTheToken) {
  start();
  EXPECT_EQ(Code::kWrongToken, refusal_of(looking("good", "guess")).code);
  EXPECT_EQ(Code::kUnknownTenant, refusal_of(looking("nobody")).code);
  const Peer stranger = connect();
  stranger.say(wire::SliceQuery{1});
  EXPECT_TRUE(stranger.is_closed());
}

TEST_F(Observers, AnObserverIsNoStranger) {
  // Broken: the monitor is thrown out after the time for a greeting, or when many connect.
  times_.hello = 20ms;
  start();
  const Peer peer = look_at("good");
  std::vector<Peer> silent;
  for (int i = 0; i < 80; ++i) silent.push_back(connect());
  EXPECT_TRUE(silent.back().is_closed()) << "their time is over, and so would be the observer's";
  EXPECT_EQ(1u, ask_slice(peer).devices.size());
}

TEST_F(Observers, ARemovedTenantsObserversAreClosed) {
  start();
  const Peer peer = look_at("good");
  ASSERT_TRUE(ask([](Broker& b) { return b.remove_tenant("good", false); }).has_value());
  peer.say(wire::SliceQuery{});
  EXPECT_TRUE(peer.is_closed());
}

TEST_F(Observers, ThereAreNotManyOfATenantAtOnce) {
  start();
  std::vector<Peer> peers;
  for (int i = 0; i < 64; ++i) peers.push_back(look_at("good"));
  EXPECT_EQ(Code::kTenantFull, refusal_of(looking("good")).code);
  EXPECT_EQ(1u, slice_of("other").devices.size()) << "it is nobody else's limit";
  peers.pop_back();
  EXPECT_TRUE(eventually([&] { return refusal_of(looking("good")).message.empty(); }));
}

TEST_F(Observers, NonsenseEndsTheConnectionAndNothingElse) {
  start();
  const Client client = open("good");
  const Peer peer = look_at("good"), other = look_at("good");
  peer.say(wire::Ping{1});
  EXPECT_TRUE(peer.is_closed());
  EXPECT_EQ(1u, ask_slice(other).sessions.size());
}

TEST_F(Observers, OfVeryManySessionsTheRestIsCounted) {
  // Broken: an answer that is too large for a frame ends the connection of whoever asks.
  config_.max_sessions = 200;
  add_tenant("many").max_sessions = 200;
  start();
  std::vector<Peer> life_lines;
  wire::Hello hello = hello_of("many");
  hello.host = hello.program = std::string(4000, 'x');
  for (std::size_t i = 0; i < wire::kSliceSessionCountMax + 2; ++i) {
    life_lines.push_back(greet(hello));
    ASSERT_TRUE(life_lines.back().hear_a<wire::Welcome>());
  }
  const wire::SliceStatus status = slice_of("many");
  EXPECT_EQ(wire::kSliceSessionCountMax, status.sessions.size());
  EXPECT_EQ(2u, status.sessions_left_out);
}

}  // namespace
}  // namespace sluice::server
