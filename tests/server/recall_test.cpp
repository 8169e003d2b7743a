// A tenant is refused memory only when no other session of it keeps any without using it.
#include "broker_fixture.h"

namespace sluice::server {
namespace {

constexpr std::uint64_t kKiB = 1024;  // a tenant has 1024 of them

class Recall : public BrokerFixture {
 protected:
  std::uint64_t used_bytes(const std::string& tenant) {
    return ask([&](Broker& b) {
      for (const auto& known : b.tenants())
        if (known.name == tenant) return known.used_bytes;
      return ~std::uint64_t{0};
    });
  }
};

TEST_F(Recall, WhatAnotherSessionKeepsIsGivenToTheOneThatNeedsIt) {
  start();
  const Client rich = open("good");
  const Client poor = open("good");
  EXPECT_EQ('1', rich.data.command('c', 1000 * kKiB));
  EXPECT_EQ('k', rich.data.command('k', 600 * kKiB));
  EXPECT_EQ('1', poor.data.command('c', 500 * kKiB));
  EXPECT_EQ('0', poor.data.command('c', 500 * kKiB)) << "the rest is in use";
  EXPECT_TRUE(eventually([&] { return used_bytes("good") == 900 * kKiB; }));
}

TEST_F(Recall, ASessionAtItsOwnLimitTakesNothingFromTheOthers) {
  start();
  wire::Hello hello = hello_of("good");
  hello.limits = "SLUICE_MEM_LIMIT=100KiB\n";
  const Client rich = open("good");
  const Client small = open(hello);
  EXPECT_EQ('1', rich.data.command('c', 900 * kKiB));
  EXPECT_EQ('k', rich.data.command('k', 600 * kKiB));
  EXPECT_EQ('0', small.data.command('c', 101 * kKiB));
  EXPECT_EQ(900 * kKiB, used_bytes("good")) << "what is kept went back for nothing";
}

TEST_F(Recall, TogetherTheyMayHaveEnough) {
  start();
  const Client a = open("good");
  const Client b = open("good");
  const Client poor = open("good");
  EXPECT_EQ('1', a.data.command('c', 500 * kKiB));
  EXPECT_EQ('1', b.data.command('c', 500 * kKiB));
  EXPECT_EQ('k', a.data.command('k', 300 * kKiB));
  EXPECT_EQ('k', b.data.command('k', 300 * kKiB));
  EXPECT_EQ('1', poor.data.command('c', 600 * kKiB));
}

TEST_F(Recall, ASessionThatDoesNotAnswerUsesWhatItHas) {
  start();
  const Client silent = open("good");
  const Client poor = open("good");
  EXPECT_EQ('1', silent.data.command('c', 1000 * kKiB));
  EXPECT_EQ('q', silent.data.command('q'));
  EXPECT_EQ('0', poor.data.command('c', 500 * kKiB)) << "and nobody waits for it for ever";
  EXPECT_EQ('1', poor.data.command('c', 24 * kKiB));
}

TEST_F(Recall, ASessionThatEndsMeanwhileLeavesItsMemory) {
  start();
  const Client dying = open("good");
  const Client poor = open("good");
  EXPECT_EQ('1', dying.data.command('c', 1000 * kKiB));
  EXPECT_EQ('q', dying.data.command('q'));
  ::shutdown(dying.life_line.fd.get(), SHUT_RDWR);
  EXPECT_TRUE(eventually([&] { return poor.data.command('c', 500 * kKiB) == '1'; }));
}

TEST_F(Recall, BothAskAtTheSameTimeAndNobodyHangs) {
  start();
  const Client a = open("good");
  const Client b = open("good");
  EXPECT_EQ('1', a.data.command('c', 500 * kKiB));
  EXPECT_EQ('1', b.data.command('c', 500 * kKiB));
  std::thread other([&] { EXPECT_EQ('0', a.data.command('c', 900 * kKiB)); });
  EXPECT_EQ('0', b.data.command('c', 900 * kKiB));
  other.join();
}

TEST_F(Recall, RefusalsAreCountedAndGrantsAreNot) {
  start();
  const Client client = open("good");
  EXPECT_EQ('1', client.data.command('c', 1000 * kKiB));
  for (int i = 0; i < 3; ++i) EXPECT_EQ('0', client.data.command('c', 25 * kKiB));
  EXPECT_EQ('1', client.data.command('c', 24 * kKiB));
  EXPECT_EQ(3u, ask([](Broker& b) {
              std::uint64_t sum = 0;
              for (const auto& known : b.tenants()) sum += known.memory_denials;
              return sum;
            }));
}

TEST_F(Recall, AnotherTenantIsNotAsked) {
  start();
  const Client rich = open("other");
  const Client poor = open("good");
  EXPECT_EQ('1', rich.data.command('c', 1000 * kKiB));
  EXPECT_EQ('k', rich.data.command('k', 1000 * kKiB));
  EXPECT_EQ('0', poor.data.command('c', 1100 * kKiB));
  EXPECT_EQ(1000 * kKiB, used_bytes("other"));
}

}  // namespace
}  // namespace sluice::server
