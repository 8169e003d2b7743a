// If the ledger is wrong, a tenant gets more than its slice, or loses memory that nobody holds.
#include "server/broker/ledger.h"

#include <gtest/gtest.h>

namespace sluice::server {

TEST(Ledger, RefusesAChargeThatWouldPassTheLimit) {
  Ledger ledger;
  EXPECT_TRUE(ledger.charge(1, "a", 0, 60, 100));
  EXPECT_FALSE(ledger.charge(1, "a", 0, 41, 100));
  EXPECT_EQ(60u, ledger.used_bytes("a", 0)) << "a refusal changed the account";
  EXPECT_TRUE(ledger.charge(1, "a", 0, 40, 100));
  EXPECT_FALSE(ledger.charge(1, "a", 0, 1, 100));
  EXPECT_FALSE(ledger.charge(2, "b", 0, ~0ull, 100)) << "overflow";
}

TEST(Ledger, AddsUpTheSessionsOfATenantAndKeepsTenantsApart) {
  Ledger ledger;
  EXPECT_TRUE(ledger.charge(1, "a", 0, 60, 100));
  EXPECT_FALSE(ledger.charge(2, "a", 0, 60, 100));
  EXPECT_TRUE(ledger.charge(3, "b", 0, 60, 100));
  EXPECT_TRUE(ledger.charge(2, "a", 1, 60, 100)) << "another device";
}

TEST(Ledger, NeverRefundsMoreThanTheSessionHolds) {
  Ledger ledger;
  EXPECT_TRUE(ledger.charge(1, "a", 0, 30, 100));
  EXPECT_TRUE(ledger.charge(2, "a", 0, 30, 100));
  ledger.refund(1, "a", 0, 1000);
  EXPECT_EQ(30u, ledger.used_bytes("a", 0));
  ledger.refund(7, "a", 0, 10);
  EXPECT_EQ(30u, ledger.used_bytes("a", 0));
}

TEST(Ledger, ForgetsExactlyWhatADeadSessionHeld) {
  Ledger ledger;
  EXPECT_TRUE(ledger.charge(1, "a", 0, 30, 100));
  EXPECT_TRUE(ledger.charge(1, "a", 1, 20, 100));
  EXPECT_TRUE(ledger.charge(2, "a", 0, 10, 100));
  ledger.drop(1, "a");
  EXPECT_EQ(10u, ledger.used_bytes("a", 0));
  EXPECT_EQ(0u, ledger.used_bytes("a", 1));
}

TEST(Ledger, AddsUpADeviceAndASession) {
  Ledger ledger;
  EXPECT_TRUE(ledger.charge(1, "a", 0, 30, 100));
  EXPECT_TRUE(ledger.charge(1, "a", 1, 20, 100));
  EXPECT_TRUE(ledger.charge(2, "b", 0, 10, 100));
  EXPECT_EQ(40u, ledger.used_bytes(0));
  EXPECT_EQ(50u, ledger.held_bytes(1));
  EXPECT_EQ(10u, ledger.held_bytes(2));
}

TEST(Ledger, WhatASessionKeepsIsChargedAndKnownAsSpare) {
  Ledger ledger;
  EXPECT_TRUE(ledger.charge(1, "a", 0, 60, 100));
  EXPECT_TRUE(ledger.charge(2, "a", 0, 30, 100));
  ledger.note_spare(1, "a", 0, 25);
  EXPECT_EQ(25u, ledger.spare_bytes(1, 0));
  EXPECT_EQ(25u, ledger.spare_bytes("a", 0));
  EXPECT_EQ(90u, ledger.used_bytes("a", 0)) << "charged all the same";
  EXPECT_FALSE(ledger.charge(2, "a", 0, 30, 100));
  ledger.note_spare(2, "a", 0, ~0ull);
  EXPECT_EQ(30u, ledger.spare_bytes(2, 0)) << "no more than it holds, whatever it says";
  ledger.refund(1, "a", 0, 50);
  EXPECT_EQ(10u, ledger.spare_bytes(1, 0));
  ledger.drop(1, "a");
  EXPECT_EQ(0u, ledger.spare_bytes(1, 0));
  ledger.note_spare(9, "a", 0, 5);
  EXPECT_EQ(0u, ledger.spare_bytes(9, 0)) << "a session that holds nothing";
}

}  // namespace sluice::server
