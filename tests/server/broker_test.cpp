// Who is let in and what becomes of a worker that misbehaves: the broker must outlive every client
// and every worker, and nobody may get what is not theirs.
#include "broker_fixture.h"

namespace sluice::server {
namespace {

using Code = wire::RefusalCode;

class BrokerTest : public BrokerFixture {};

TEST_F(BrokerTest, GivesEveryTenantItsOwnSliceAndSession) {
  start();
  const Client a = open("good");
  const Client b = open("other");
  EXPECT_NE(a.welcome.session_id, b.welcome.session_id);
  ASSERT_EQ(1u, a.welcome.devices.size());
  EXPECT_EQ(1u << 20, a.welcome.devices[0].total_bytes) << "the slice, not the device";
  EXPECT_EQ('1', a.data.command('c', 1 << 20));
  EXPECT_EQ('0', a.data.command('c', 1));
  EXPECT_EQ('1', b.data.command('c', 1 << 20)) << "one tenant's memory is charged to another";
}

TEST_F(BrokerTest, LetsATenantInWhoseMemoryIsUsedUpAndGrantsItNothing) {
  start();
  const Client first = open("good");
  EXPECT_EQ('1', first.data.command('c', 1 << 20));
  const Client second = open("good");
  EXPECT_EQ('0', second.data.command('c', 1));
  ::shutdown(first.life_line.fd.get(), SHUT_RDWR);
  EXPECT_TRUE(eventually([&] { return session_count() == 1; }));
  EXPECT_EQ('1', second.data.command('c', 1 << 20)) << "the dead session still holds its memory";
}

TEST_F(BrokerTest, ClosesADataConnectionWithAWrongKey) {
  start();
  const Client client = open("good");
  const Peer thief = connect();
  wire::SessionKey key = client.welcome.session_key;
  key[31] ^= 1;
  thief.say(wire::Attach{key});
  EXPECT_TRUE(thief.is_closed());
  const Peer twice = connect();
  twice.say(wire::Attach{client.welcome.session_key});
  EXPECT_TRUE(twice.is_closed()) << "a session has one data connection";
  EXPECT_EQ('r', client.data.command('r')) << "the session itself must not notice";
}

TEST_F(BrokerTest, TakesTheLanesThatWereAnnouncedAndEachOnce) {
  start();
  Client client;
  client.life_line = greet(hello_of("good"));
  client.welcome = client.life_line.hear_a<wire::Welcome>().value();
  EXPECT_NE(client.welcome.feature_bits & wire::kFeatureLanes, 0U);
  const auto attach = [&](std::uint8_t lane, std::uint8_t count) {
    Peer peer = connect();
    peer.say(
        wire::Attach{.session_key = client.welcome.session_key, .lane = lane, .lane_count = count});
    return peer;
  };
  EXPECT_TRUE(attach(1, 0).is_closed()) << "before the connection for records";
  EXPECT_TRUE(attach(0, wire::kLaneCountMax + 1).is_closed());
  const Peer data = attach(0, 2);
  EXPECT_TRUE(data.hear_a<wire::Attached>().has_value());
  const Peer second = attach(2, 2), first = attach(1, 2);
  EXPECT_TRUE(second.hear_a<wire::Attached>().has_value());
  EXPECT_TRUE(first.hear_a<wire::Attached>().has_value());
  for (const int lane : {0, 1, 3, 5, 32, 255})
    EXPECT_TRUE(attach(static_cast<std::uint8_t>(lane), 2).is_closed()) << lane;
}

TEST_F(BrokerTest, RefusesUnknownTenantsAndWrongTokens) {
  start();
  EXPECT_EQ(Code::kUnknownTenant, refusal_of(hello_of("nobody")).code);
  EXPECT_EQ(Code::kWrongToken, refusal_of(hello_of("good", "wrong")).code);
  EXPECT_EQ(Code::kWrongToken, refusal_of(hello_of("good", "")).code);
}

TEST_F(BrokerTest, RefusesATenantWithoutAToken) {
  add_tenant("revoked").token_hash.reset();
  start();
  EXPECT_EQ(Code::kWrongToken, refusal_of(hello_of("revoked")).code);
  EXPECT_EQ(Code::kWrongToken, refusal_of(hello_of("revoked", "")).code);
}

TEST_F(BrokerTest, RefusesWhatIsBeyondTheTenantsSessions) {
  config_.tenants[0].max_sessions = 1;
  start();
  {
    const Client only = open("good");
    const wire::Refusal refusal = refusal_of(hello_of("good"));
    EXPECT_EQ(Code::kTenantFull, refusal.code);
    EXPECT_NE(std::string::npos, refusal.message.find("max_sessions"));
    open("other");
  }
  EXPECT_TRUE(eventually([&] { return session_count() == 0; }));
  open("good");
}

TEST_F(BrokerTest, DoesNotCountASessionWhoseClientIsGone) {
  // Broken: a program that is started again at once finds its tenant full.
  config_.tenants = {};
  add_tenant("endless").max_sessions = 1;
  times_.last_report = 2s;
  start();
  { const Client first = open("endless"); }
  EXPECT_TRUE(eventually([&] {
    const auto sessions = ask([](Broker& b) { return b.sessions(); });
    return sessions.size() == 1 && sessions[0].state == "ending";
  }));
  open("endless");
}

TEST_F(BrokerTest, RefusesWhatIsBeyondTheServersSessions) {
  config_.max_sessions = 1;
  start();
  const Client only = open("good");
  const wire::Refusal refusal = refusal_of(hello_of("other"));
  EXPECT_EQ(Code::kServer, refusal.code);
  EXPECT_NE(std::string::npos, refusal.message.find("max_sessions in [server]"));
}

TEST_F(BrokerTest, AnswersACheckWithoutASession) {
  start();
  wire::Hello hello = hello_of("good");
  hello.feature_bits |= wire::kFeatureCheckOnly;
  const auto welcome = greet(hello).hear_a<wire::Welcome>();
  ASSERT_TRUE(welcome.has_value());
  EXPECT_EQ(0u, welcome->session_id);
  EXPECT_EQ(0u, session_count());
  hello.token = "wrong";
  EXPECT_EQ(Code::kWrongToken, refusal_of(hello).code);
}

TEST_F(BrokerTest, TellsTheClientWhyItsWorkerFailed) {
  add_tenant("failing");
  start();
  EXPECT_NE(std::string::npos,
            refusal_of(hello_of("failing")).message.find("no device is plugged in"));
  EXPECT_TRUE(eventually([&] { return session_count() == 0; })) << "the failed worker is left";
  open("good");
}

TEST_F(BrokerTest, TellsTheClientThatItsWorkerDied) {
  add_tenant("dying");
  start();
  EXPECT_NE(std::string::npos, refusal_of(hello_of("dying")).message.find("worker process ended"));
  open("good");
}

TEST_F(BrokerTest, TellsTheClientThatThereIsNoWorker) {
  worker_ = folder_ + "/no-such-worker";
  config_.prestart_workers = 1;
  start();
  EXPECT_EQ(Code::kServer, refusal_of(hello_of("good")).code);
}

TEST_F(BrokerTest, GivesUpOnAWorkerThatNeverConnects) {
  add_tenant("mute");
  times_.start = 50ms;
  start();
  EXPECT_NE(std::string::npos, refusal_of(hello_of("mute")).message.find("in time"));
  EXPECT_TRUE(eventually([&] { return session_count() == 0; })) << "the mute worker is left";
}

TEST_F(BrokerTest, KillsAWorkerThatAsksAndDoesNotRead) {
  add_tenant("deaf");
  start();
  const Peer client = greet(hello_of("deaf"));
  EXPECT_TRUE(client.hear_a<wire::Welcome>().has_value());
  const auto ending = client.hear_a<wire::Ending>();
  ASSERT_TRUE(ending.has_value());
  EXPECT_EQ(wire::EndingCode::kWorker, ending->code);
  EXPECT_TRUE(client.is_closed());
  open("good");
}

TEST_F(BrokerTest, KillsAWorkerThatBabbles) {
  // Broken: its session stays for ever, deaf to the ledger.
  add_tenant("babbling");
  start();
  const Peer client = greet(hello_of("babbling"));
  EXPECT_TRUE(client.hear_a<wire::Welcome>().has_value());
  EXPECT_TRUE(eventually([&] { return session_count() == 0; }));
}

TEST_F(BrokerTest, KillsAWorkerThatDoesNotEndWithItsClient) {
  add_tenant("endless");
  times_.last_report = 20ms;
  start();
  { const Client client = open("endless"); }
  EXPECT_TRUE(eventually([&] { return session_count() == 0; }));
}

TEST_F(BrokerTest, EndsASessionThatNeverOpensItsDataConnection) {
  times_.attach = 30ms;
  start();
  const Peer client = greet(hello_of("good"));
  EXPECT_TRUE(client.hear_a<wire::Welcome>().has_value());
  EXPECT_TRUE(client.hear_a<wire::Ending>().has_value());
  EXPECT_TRUE(eventually([&] { return session_count() == 0; }));
}

TEST_F(BrokerTest, ClosesAStrangerThatSaysNothing) {
  times_.hello = 30ms;
  start();
  EXPECT_TRUE(connect().is_closed());
}

TEST_F(BrokerTest, ReportsADeadWorkerToItsClientOnly) {
  start();
  const Client doomed = open("good");
  const Client other = open("other");
  EXPECT_EQ('\0', doomed.data.command('x'));
  const auto ending = doomed.life_line.hear_a<wire::Ending>();
  ASSERT_TRUE(ending.has_value());
  EXPECT_EQ(wire::EndingCode::kWorker, ending->code);
  EXPECT_EQ('r', other.data.command('r'));
}

TEST_F(BrokerTest, MakesWhatAClientSaysPrintable) {
  // Broken: a program's name breaks the log, the statistics or an administrator's terminal.
  start();
  wire::Hello hello = hello_of("good");
  hello.program = "a\nb\x1b[31m\xff\xc3\xa9";
  hello.host = std::string(100'000, 'h');
  const Client client = open(hello);
  const auto info = ask([](Broker& b) { return b.sessions().at(0); });
  EXPECT_EQ("a?b?[31m?\xc3\xa9", info.program);
  EXPECT_EQ(256u, info.host.size());
  EXPECT_EQ(Code::kUnknownTenant, refusal_of(hello_of("go\xffod")).code);
}

TEST_F(BrokerTest, ShowsWhatItsSessionsDo) {
  start();
  const Client client = open("good");
  EXPECT_EQ('1', client.data.command('c', 4096));
  const auto info = ask([](Broker& b) { return b.sessions().at(0); });
  EXPECT_EQ(client.welcome.session_id, info.id);
  EXPECT_EQ("good", info.tenant);
  EXPECT_EQ("open", info.state);
  EXPECT_EQ(4096u, info.memory_bytes);
  EXPECT_EQ(4096u, info.memory_peak_bytes) << "the peak is reported later, but never below the use";
  EXPECT_EQ(1u, info.calls);
  const auto server = ask([](Broker& b) { return b.server(); });
  EXPECT_EQ(1u, server.sessions);
  ASSERT_EQ(1u, server.devices.size());
  EXPECT_EQ(4096u, server.devices[0].used_bytes);
}

TEST_F(BrokerTest, AClientsOwnLimitLowersItsSliceAndNobodyElses) {
  start();
  wire::Hello hello = hello_of("good");
  hello.limits = "SLUICE_MEM_LIMIT=4096\n";
  const Client small = open(hello);
  const Client other = open("good");
  EXPECT_EQ(4096u, small.welcome.devices.at(0).total_bytes);
  EXPECT_LT(4096u, other.welcome.devices.at(0).total_bytes);
  EXPECT_EQ('1', other.data.command('c', 8192));
  EXPECT_EQ('1', small.data.command('c', 4096));
  EXPECT_EQ('0', small.data.command('c', 1)) << "it has what it asked for";
  EXPECT_EQ('1', other.data.command('c', 1));
}

TEST_F(BrokerTest, AClientsOwnLimitNeverRaisesItsSlice) {
  start();
  wire::Hello hello = hello_of("good");
  const std::uint64_t slice = open("good").welcome.devices.at(0).total_bytes;
  hello.limits = "SLUICE_MEM_LIMIT=1TiB\n";
  EXPECT_EQ(slice, open(hello).welcome.devices.at(0).total_bytes);
}

TEST_F(BrokerTest, AClientsOwnLimitThatCannotBeReadIsRefused) {
  // Broken: a wish for less becomes everything.
  start();
  wire::Hello hello = hello_of("good");
  hello.limits = "CUDA_DEVICE_SM_LIMIT=half\n";
  EXPECT_NE(std::string::npos, refusal_of(hello).message.find("CUDA_DEVICE_SM_LIMIT=half"));
  hello.limits = "SLUICE_MEM_LIMIT=\x1b[2J\n";
  EXPECT_EQ(std::string::npos, refusal_of(hello).message.find('\x1b')) << "and into the log";
}

}  // namespace
}  // namespace sluice::server
