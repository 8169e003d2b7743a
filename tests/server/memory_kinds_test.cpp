// What the broker does with memory by kind: what workers say, what is shown, and what happens when
// the ledger is wrong.
#include "broker_fixture.h"
#include "ledger_fault.h"

namespace sluice::server {
namespace {

constexpr std::uint64_t kKiB = 1024;  // a tenant has 1024 of them

class MemoryKinds : public BrokerFixture {
 protected:
  control::TenantInfo tenant(const std::string& name) {
    return ask([&](Broker& b) {
      for (const auto& known : b.tenants())
        if (known.name == name) return known;
      return control::TenantInfo{};
    });
  }
  std::uint64_t held(const std::string& name, MemoryKind kind) {
    return tenant(name).memory_kinds[index_of(kind)];
  }
  control::DeviceInfo device() {
    return ask([](Broker& b) { return b.server().devices.at(0); });
  }
};

TEST_F(MemoryKinds, SessionsAndTenantsShowWhatTheyHoldByKind) {
  start();
  const Client client = open("good");
  EXPECT_EQ('1', client.data.command('c', 100 * kKiB));
  EXPECT_EQ('1', client.data.command('m', 50 * kKiB));
  EXPECT_EQ(100 * kKiB, held("good", MemoryKind::kData));
  EXPECT_EQ(50 * kKiB, held("good", MemoryKind::kModule));
  EXPECT_EQ(150 * kKiB, tenant("good").used_bytes);
  const auto session = ask([](Broker& b) { return b.sessions().at(0); });
  EXPECT_EQ(50 * kKiB, session.memory_kinds[index_of(MemoryKind::kModule)]);
  EXPECT_EQ(150 * kKiB, session.memory_bytes);
}

TEST_F(MemoryKinds, OverheadIsShownAndNotChargedToTheSlice) {
  start();
  const Client client = open("good");
  EXPECT_EQ('o', client.data.command('o', 5000 * kKiB));
  EXPECT_TRUE(eventually([&] { return device().overhead_bytes == 5000 * kKiB; }));
  EXPECT_EQ(0u, tenant("good").used_bytes);
  EXPECT_EQ('1', client.data.command('c', 1024 * kKiB));
  EXPECT_EQ(1024 * kKiB, device().used_bytes);
}

TEST_F(MemoryKinds, OverheadIsChargedToATenantThatIsConfiguredSo) {
  config_.tenants[0].charges_context = true;
  start();
  const Client client = open("good");
  EXPECT_EQ('o', client.data.command('o', 600 * kKiB));
  EXPECT_TRUE(eventually([&] { return tenant("good").used_bytes == 600 * kKiB; }));
  EXPECT_EQ('0', client.data.command('c', 500 * kKiB));
  EXPECT_EQ('1', client.data.command('c', 424 * kKiB));
}

TEST_F(MemoryKinds, OverheadOfOneTenantIsMissingToTheOthersWhenTheDeviceIsFull) {
  start();
  const Client big = open("good");
  const Client other = open("other");
  EXPECT_EQ('o', big.data.command('o', 1024 * 1024 * kKiB - 100 * kKiB));
  EXPECT_TRUE(eventually([&] { return device().overhead_bytes > 0; }));
  EXPECT_EQ('0', other.data.command('c', 101 * kKiB));
  EXPECT_EQ('1', other.data.command('c', 100 * kKiB));
}

TEST_F(MemoryKinds, AWorkerThatGivesBackWhatItNeverHadIsKilledAndNobodyElseIsHarmed) {
  start();
  const Client liar = open("good");
  const Client other = open("other");
  EXPECT_EQ('1', other.data.command('c', 100 * kKiB));
  static_cast<void>(liar.data.command('l', 100 * kKiB));  // it may not live to answer
  EXPECT_TRUE(eventually([&] { return session_count() == 1; }));
  EXPECT_EQ(100 * kKiB, tenant("other").used_bytes);
  EXPECT_TRUE(ask([](Broker& b) { return b.server().is_enforcing; }));
  EXPECT_EQ('1', other.data.command('c', 100 * kKiB));
}

TEST_F(MemoryKinds, AWorkerThatClaimsMoreThanTheDeviceHasIsKilled) {
  start();
  const Client liar = open("good");
  static_cast<void>(liar.data.command('o', ~std::uint64_t{0}));  // it may not live to answer
  EXPECT_TRUE(eventually([&] { return session_count() == 0; }));
  EXPECT_EQ(0u, device().overhead_bytes);
  EXPECT_TRUE(ask([](Broker& b) { return b.server().is_enforcing; }));
}

TEST_F(MemoryKinds, ABrokenLedgerGrantsNothingAndIsAnAlarm) {
  start();
  const Client client = open("good");
  EXPECT_EQ('1', client.data.command('c', 100 * kKiB));
  ask([](Broker& b) {
    LedgerFault::grow_tenant(LedgerFault::ledger_of(b), "good", 1);
    return true;
  });
  EXPECT_TRUE(eventually([&] { return !ask([](Broker& b) { return b.server().is_enforcing; }); }));
  EXPECT_EQ('0', client.data.command('c', 1 * kKiB));
  EXPECT_NE(std::string::npos, refusal_of(hello_of("other")).message.find("inconsistent"));
}

TEST_F(MemoryKinds, NothingIsLeftOfASessionThatDied) {
  start();
  const Client client = open("good");
  EXPECT_EQ('1', client.data.command('c', 100 * kKiB));
  EXPECT_EQ('o', client.data.command('o', 300 * kKiB));
  EXPECT_EQ('\0', client.data.command('x'));
  EXPECT_TRUE(eventually([&] { return session_count() == 0; }));
  EXPECT_EQ(MemoryByKind{}, tenant("good").memory_kinds);
  EXPECT_EQ(0u, device().overhead_bytes);
  EXPECT_EQ(0u, device().used_bytes);
}

}  // namespace
}  // namespace sluice::server
