// If the ledger is wrong, a tenant gets more than its slice, or loses memory that nobody holds.
#include "ledger_fault.h"

#include <gtest/gtest.h>

namespace sluice::server {

namespace {

using Kind = MemoryKind;
using Verdict = Ledger::Verdict;
constexpr std::uint64_t kDevice = 1000;

/// Data, of a slice of 100 on a device of 1000.
Verdict charge(Ledger& ledger, std::uint64_t session, const std::string& tenant,
               std::uint64_t bytes, std::uint32_t device = 0, Kind kind = Kind::kData) {
  return ledger.charge({session, tenant, device}, kind, bytes, {100, kDevice});
}

TEST(Ledger, RefusesAChargeThatWouldPassTheLimit) {
  Ledger ledger;
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 1, "a", 60));
  EXPECT_EQ(Verdict::kSliceFull, charge(ledger, 1, "a", 41));
  EXPECT_EQ(60u, ledger.used_bytes("a", 0)) << "a refusal changed the account";
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 1, "a", 40));
  EXPECT_EQ(Verdict::kSliceFull, charge(ledger, 1, "a", 1));
  EXPECT_EQ(Verdict::kSliceFull, charge(ledger, 2, "b", ~0ull)) << "overflow";
}

TEST(Ledger, AddsUpTheSessionsOfATenantAndKeepsTenantsApart) {
  Ledger ledger;
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 1, "a", 60));
  EXPECT_EQ(Verdict::kSliceFull, charge(ledger, 2, "a", 60));
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 3, "b", 60));
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 2, "a", 60, 1)) << "another device";
}

TEST(Ledger, AddsUpTheKindsOfASession) {
  Ledger ledger;
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 1, "a", 30));
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 1, "a", 20, 0, Kind::kModule));
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 1, "a", 5, 1, Kind::kModule));
  EXPECT_EQ(Verdict::kSliceFull, charge(ledger, 1, "a", 51, 0, Kind::kPool));
  EXPECT_EQ(50u, ledger.held_bytes(1, 0));
  EXPECT_EQ(20u, ledger.kinds_of(1, 0)[index_of(Kind::kModule)]);
  EXPECT_EQ(25u, ledger.kinds_of(1)[index_of(Kind::kModule)]);
  EXPECT_EQ(30u, ledger.kinds_of("a")[index_of(Kind::kData)]);
}

TEST(Ledger, NeverRefundsWhatTheSessionDoesNotHold) {
  Ledger ledger;
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 1, "a", 30));
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 2, "a", 30));
  EXPECT_FALSE(ledger.refund({1, "a", 0}, Kind::kData, 31)) << "another session's";
  EXPECT_FALSE(ledger.refund({1, "a", 0}, Kind::kModule, 30)) << "another kind's";
  EXPECT_FALSE(ledger.refund({7, "a", 0}, Kind::kData, 10)) << "a session that holds nothing";
  EXPECT_EQ(60u, ledger.used_bytes("a", 0));
  EXPECT_TRUE(ledger.refund({1, "a", 0}, Kind::kData, 30));
  EXPECT_EQ(30u, ledger.used_bytes("a", 0));
  EXPECT_FALSE(ledger.is_broken()) << "what a worker says breaks nothing";
}

TEST(Ledger, ForgetsExactlyWhatADeadSessionHeld) {
  Ledger ledger;
  charge(ledger, 1, "a", 30);
  charge(ledger, 1, "a", 5, 0, Kind::kModule);
  charge(ledger, 1, "a", 20, 1);
  ledger.measure({1, "a", 0}, Kind::kLibrary, 40);
  charge(ledger, 2, "a", 10);
  ledger.drop(1);
  EXPECT_EQ(10u, ledger.used_bytes("a", 0));
  EXPECT_EQ(0u, ledger.used_bytes("a", 1));
  EXPECT_EQ((Ledger::Sums{10, 0}), ledger.sums_of(0));
  ledger.audit();
  EXPECT_EQ("", ledger.violation());
}

TEST(Ledger, OverheadCountsAgainstTheDeviceAndNotTheSlice) {
  Ledger ledger;
  ledger.measure({1, "a", 0}, Kind::kLibrary, 900);
  EXPECT_EQ(0u, ledger.used_bytes("a", 0));
  EXPECT_EQ(0u, ledger.held_bytes(1, 0));
  EXPECT_EQ((Ledger::Sums{0, 900}), ledger.sums_of(0));
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 1, "a", 100));
  EXPECT_EQ(Verdict::kDeviceFull, charge(ledger, 2, "b", 1)) << "more than the device has";
  ledger.measure({1, "a", 0}, Kind::kLibrary, 800);
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 2, "b", 100));
}

TEST(Ledger, OverheadOfATenantThatIsChargedForItCountsAgainstItsSlice) {
  Ledger ledger;
  ledger.charge_overhead_of({"a"});
  ledger.measure({1, "a", 0}, Kind::kLibrary, 60);
  ledger.measure({2, "b", 0}, Kind::kLibrary, 60);
  EXPECT_EQ(60u, ledger.used_bytes("a", 0));
  EXPECT_EQ(0u, ledger.used_bytes("b", 0));
  EXPECT_EQ(Verdict::kSliceFull, charge(ledger, 1, "a", 41));
  EXPECT_EQ(Verdict::kSliceFull, charge(ledger, 1, "a", 41, 0, Kind::kContext));
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 2, "b", 41, 0, Kind::kContext));
  ledger.measure({1, "a", 0}, Kind::kLibrary, 150);
  EXPECT_EQ(Verdict::kSliceFull, charge(ledger, 1, "a", 0 + 1)) << "over the limit already";
  ledger.charge_overhead_of({});
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 1, "a", 41));
}

TEST(Ledger, PinnedHostMemoryIsOfNoDevice) {
  Ledger ledger;
  ledger.measure({1, "a", 0}, Kind::kHostPinned, 5000);
  EXPECT_EQ((Ledger::Sums{0, 0}), ledger.sums_of(0));
  EXPECT_EQ(5000u, ledger.kinds_of("a")[index_of(Kind::kHostPinned)]);
  EXPECT_EQ(Verdict::kGranted, charge(ledger, 1, "a", 100));
}

TEST(Ledger, WhatASessionKeepsIsChargedAndKnownAsSpare) {
  Ledger ledger;
  charge(ledger, 1, "a", 60);
  charge(ledger, 2, "a", 30);
  ledger.note_spare({1, "a", 0}, 25);
  EXPECT_EQ(25u, ledger.spare_bytes(1, 0));
  EXPECT_EQ(25u, ledger.spare_bytes("a", 0));
  EXPECT_EQ(90u, ledger.used_bytes("a", 0)) << "charged all the same";
  EXPECT_EQ(Verdict::kSliceFull, charge(ledger, 2, "a", 30));
  ledger.note_spare({2, "a", 0}, ~0ull);
  EXPECT_EQ(30u, ledger.spare_bytes(2, 0)) << "no more than it holds, whatever it says";
  EXPECT_TRUE(ledger.refund({1, "a", 0}, Kind::kData, 50));
  EXPECT_EQ(10u, ledger.spare_bytes(1, 0));
  ledger.drop(1);
  EXPECT_EQ(0u, ledger.spare_bytes(1, 0));
  ledger.note_spare({9, "a", 0}, 5);
  EXPECT_EQ(0u, ledger.spare_bytes(9, 0)) << "a session that holds nothing";
}

/// With two sessions, one of which has something to give back.
class BrokenLedger : public ::testing::Test {
 protected:
  BrokenLedger() {
    charge(ledger_, 1, "a", 30);
    charge(ledger_, 2, "b", 20);
    ledger_.audit();
    EXPECT_FALSE(ledger_.is_broken());
  }
  void expect_violation(const std::string& part) {
    EXPECT_TRUE(ledger_.is_broken());
    EXPECT_NE(std::string::npos, ledger_.violation().find(part)) << ledger_.violation();
    EXPECT_EQ(Verdict::kBroken, charge(ledger_, 2, "b", 1)) << "it fails closed";
    ledger_.audit();
    EXPECT_NE(std::string::npos, ledger_.violation().find(part)) << "the first one stays";
  }
  Ledger ledger_;
};

TEST_F(BrokenLedger, ATenantThatIsNotTheSumOfItsSessionsIsFound) {
  LedgerFault::grow_tenant(ledger_, "a", 7);
  ledger_.audit();
  expect_violation("tenant a has 37 bytes of slice");
}

TEST_F(BrokenLedger, ADeviceThatIsNotTheSumOfItsTenantsIsFound) {
  LedgerFault::grow_device(ledger_, 7);
  ledger_.audit();
  expect_violation("device 0 has 57 bytes of slice");
}

TEST_F(BrokenLedger, ASessionThatIsNotTheSumOfItsKindsIsFoundAtItsNextChange) {
  LedgerFault::grow_session(ledger_, 1, 7);
  EXPECT_TRUE(ledger_.refund({1, "a", 0}, Kind::kData, 1));
  expect_violation("session 1 of tenant a has 36 bytes of slice");
}

TEST_F(BrokenLedger, AnAccountThatWouldBeNegativeIsFound) {
  LedgerFault::shrink_device(ledger_, 40);
  EXPECT_TRUE(ledger_.refund({1, "a", 0}, Kind::kData, 30));
  expect_violation("device 0 gives back 30 bytes and has 10 bytes of slice");
}

TEST_F(BrokenLedger, SessionsStillEnd) {
  LedgerFault::grow_tenant(ledger_, "a", 7);
  ledger_.audit();
  ledger_.drop(1);
  EXPECT_EQ(0u, ledger_.held_bytes(1));
}

}  // namespace
}  // namespace sluice::server
