// What each queue may have.
#include "scheduler/pool/queues/fair_share.h"

#include "scheduler/pool/queues/shares.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;
using pool::Claim;
using pool::QueueSpec;
using pool::QueueTree;
using pool::Resource;
using Shares = std::vector<std::int64_t>;

Shares divide(std::int64_t capacity, std::vector<Claim> claims, double history = 0) {
  return pool::divide(capacity, claims, history, 1);
}

QueueSpec queue(const std::string& name, const std::string& parent, double weight,
                std::int64_t guarantee = 0) {
  QueueSpec spec;
  spec.name = name;
  spec.parent = parent;
  spec[Resource::kCompute] = {.guarantee = guarantee, .limit = {}, .weight = weight, .priority = 0};
  return spec;
}

TEST(Divide, GivesGuaranteesFirstAndTheRestByWeight) {
  EXPECT_EQ(divide(100, {{.guarantee = 40, .wanted = 100, .weight = 1},
                         {.guarantee = 0, .wanted = 100, .weight = 2}}),
            (Shares{60, 40}));
}

TEST(Divide, GivesWhatOneDoesNotWantToTheOthers) {
  EXPECT_EQ(divide(90, {{.wanted = 10}, {.wanted = 100}, {.wanted = 100}}), (Shares{10, 40, 40}));
}

TEST(Divide, OffersWhatIsLeftToHigherPrioritiesFirst) {
  EXPECT_EQ(
      divide(100, {{.guarantee = 10, .wanted = 100, .priority = 0}, {.wanted = 70, .priority = 5}}),
      (Shares{30, 70}));
}

TEST(Divide, GivesLessToWhoHasHadMore) {
  // 0.5 + 0.5 (0.5 - 0.8) = 0.35 against 0.5 + 0.5 (0.5 - 0) = 0.75.
  EXPECT_EQ(divide(100, {{.wanted = 100, .usage = 0.8}, {.wanted = 100, .usage = 0}}, 0.5),
            (Shares{32, 68}));
}

TEST(Divide, CutsGuaranteesInProportionWhenThePoolHasShrunk) {
  EXPECT_EQ(divide(50, {{.guarantee = 80, .wanted = 80}, {.guarantee = 20, .wanted = 20}}),
            (Shares{40, 10}));
}

TEST(Divide, NeverGivesMoreThanThereIsNorThanIsWanted) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Claim> claims(1 + random() % 8);
    std::int64_t wanted = 0;
    for (Claim& claim : claims) {
      claim.wanted = static_cast<std::int64_t>(random() % 5000);
      claim.guarantee = static_cast<std::int64_t>(random() % 2000);
      claim.weight = 1 + static_cast<double>(random() % 9);
      claim.priority = static_cast<int>(random() % 2);
      claim.usage = static_cast<double>(random() % 100) / 100;
      wanted += claim.wanted;
    }
    const auto capacity = static_cast<std::int64_t>(random() % 20'000);
    const Shares shares = pool::divide(capacity, claims, 0.5, 1);
    for (std::size_t i = 0; i < claims.size(); ++i) {
      ASSERT_GE(shares[i], 0);
      ASSERT_LE(shares[i], claims[i].wanted);
    }
    // Guarantees that do not fit are rounded down, each by less than one.
    const std::int64_t sum = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
    ASSERT_LE(sum, capacity);
    ASSERT_GE(sum, std::min(capacity, wanted) - static_cast<std::int64_t>(claims.size()));
  }
}

TEST(QueueTree, DividesAParentsShareAmongItsChildren) {
  const auto tree = QueueTree::make({queue("org", "", 3), queue("other", "", 1),
                                     queue("research", "org", 2), queue("prod", "org", 1)});
  ASSERT_TRUE(tree);
  std::vector<pool::Resources> asked(tree->size());
  for (const char* leaf : {"other", "research", "prod"})
    asked[*tree->find(leaf)] = {.compute_permille = 100'000, .memory_bytes = 0};
  const auto shares = fair_shares(*tree, {.compute_permille = 16'000, .memory_bytes = 0},
                                  sum_up(*tree, asked), pool::Usage(), {});
  EXPECT_EQ(shares[*tree->find("other")].compute_permille, 4000);
  EXPECT_EQ(shares[*tree->find("research")].compute_permille, 8000);
  EXPECT_EQ(shares[*tree->find("prod")].compute_permille, 4000);
}

TEST(QueueTree, RefusesWhatIsNoTreeAndNamesTheNearestQueue) {
  const auto orphan = QueueTree::make({queue("research", "", 1), queue("vision", "reserch", 1)});
  ASSERT_FALSE(orphan);
  EXPECT_NE(orphan.error().message.find("research"), std::string::npos) << orphan.error().message;
  EXPECT_FALSE(QueueTree::make({queue("a", "b", 1), queue("b", "a", 1)}));
  EXPECT_FALSE(QueueTree::make({queue("a", "", 1), queue("a", "", 1)}));
  EXPECT_FALSE(QueueTree::make({queue("a", "", 0)}));
  const auto tree = QueueTree::make({queue("org", "", 1), queue("research", "org", 1)});
  ASSERT_TRUE(tree);
  EXPECT_FALSE(tree->find_leaf("org")) << "jobs wait in leaves only";
  EXPECT_TRUE(tree->find_leaf("research"));
}

TEST(QueueUsage, CountsHalfAfterTheHalfLife) {
  const auto tree = QueueTree::make({queue("a", "", 1), queue("b", "", 1)});
  ASSERT_TRUE(tree);
  const pool::Resources capacity{.compute_permille = 1000, .memory_bytes = 1};
  pool::Usage usage(1h);
  usage.advance(*tree, {capacity, {}}, 0s);
  usage.advance(*tree, {capacity, {}}, 100h);
  EXPECT_NEAR(usage.fraction("a", Resource::kCompute, capacity), 1, 0.01);
  usage.advance(*tree, {{}, {}}, 101h);
  EXPECT_NEAR(usage.fraction("a", Resource::kCompute, capacity), 0.5, 0.01);
  EXPECT_EQ(usage.fraction("b", Resource::kCompute, capacity), 0);
}

}  // namespace
}  // namespace sluice::test
