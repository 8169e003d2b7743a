// Which devices a request gets, and what is said when it gets none.
#include "scheduler/pool/placement/placement.h"

#include "tests/pool/pool.h"

#include <gtest/gtest.h>

#include <random>

namespace sluice::test {
namespace {

using pool::Cause;
using pool::Isolation;
using pool::Snapshot;

/// Places it and lends it; the name of the node, empty if there is none.
std::string lend(Snapshot& snapshot, pool::LeaseId id, const pool::Request& request) {
  const pool::Decision decision = place(snapshot, request);
  if (!decision.is_placed()) return "";
  EXPECT_TRUE(snapshot.grant(lease_of(id, request, decision)));
  return snapshot.node(decision.parts.front().place.node).name;
}

TEST(Placement, PacksWhatIsSharedOntoADeviceThatIsInUse) {
  // Broken: every small request opens another device, and none is left for a big one.
  Snapshot snapshot = pool_of({node_of("a", 2), node_of("b", 2)});
  const pool::Decision first = place(snapshot, request_of(10));
  ASSERT_TRUE(snapshot.grant(lease_of(1, request_of(10), first)));
  for (pool::LeaseId id = 2; id <= 8; ++id) {
    const pool::Decision next = place(snapshot, request_of(10));
    ASSERT_TRUE(next.is_placed());
    EXPECT_EQ(next.parts.front().place, first.parts.front().place) << id;
    ASSERT_TRUE(snapshot.grant(lease_of(id, request_of(10), next)));
  }
  EXPECT_NE(place(snapshot, request_of(10)).parts.front().place, first.parts.front().place)
      << "that device is full";
}

TEST(Placement, SpreadsWhatHurries) {
  Snapshot snapshot = pool_of({node_of("a", 2), node_of("b", 2)});
  pool::Request request = request_of(10);
  request.cls = pool::Class::kInteractive;
  std::set<pool::DevicePlace> places;
  for (pool::LeaseId id = 1; id <= 4; ++id) {
    const pool::Decision decision = place(snapshot, request);
    ASSERT_TRUE(snapshot.grant(lease_of(id, request, decision)));
    places.insert(decision.parts.front().place);
  }
  EXPECT_EQ(places.size(), 4u);
}

TEST(Placement, PutsTheGpusOfARequestOnOneNodeAndOneSocket) {
  Snapshot snapshot = pool_of({node_of("a", 2), node_of("b", 8)});
  const pool::Decision decision = place(snapshot, request_of(40, 1000, 4));
  ASSERT_EQ(decision.parts.size(), 4u);
  std::set<int> sockets;
  for (const pool::Part& part : decision.parts) {
    EXPECT_EQ(snapshot.node(part.place.node).name, "b");
    sockets.insert(snapshot.device(part.place).numa_node);
  }
  EXPECT_EQ(sockets.size(), 1u);
}

TEST(Placement, TakesSeveralNodesOnlyIfItIsAskedTo) {
  Snapshot snapshot = pool_of({node_of("a", 2), node_of("b", 2)});
  pool::Request request = request_of(40, 1000, 4);
  const pool::Decision refused = place(snapshot, request);
  EXPECT_FALSE(refused.is_placed());
  EXPECT_NE(why_not(snapshot, request, refused).find("needs 4 devices, 2 would do"),
            std::string::npos);
  request.may_span = true;
  EXPECT_EQ(place(snapshot, request).parts.size(), 4u);
}

TEST(Placement, SaysWhatIsMissingAndWhereMostIsLeft) {
  // Broken: "no resources", and the user asks the administrator.
  Snapshot snapshot = pool_of({node_of("a", 1), node_of("b", 1)});
  ASSERT_EQ(lend(snapshot, 1, request_of(60)), "a");
  ASSERT_EQ(lend(snapshot, 2, request_of(74)), "b");
  const pool::Decision decision = place(snapshot, request_of(30));
  ASSERT_FALSE(decision.is_placed());
  EXPECT_EQ(why_not(snapshot, request_of(30), decision),
            "needs 30 GiB, largest free 20 GiB on a; of 2 devices: 2 memory");
}

TEST(Placement, KeepsOffNodesThatAreCordonedDrainedOrTainted) {
  pool::Node cordoned = node_of("a", 1), drained = node_of("b", 1), tainted = node_of("c", 1);
  cordoned.is_cordoned = true;
  drained.drained_until = pool::Time(1);
  tainted.taints = {{.key = "team", .value = "vision"}};
  Snapshot snapshot = pool_of({cordoned, drained, tainted});
  pool::Request request = request_of(1);
  const pool::Decision decision = place(snapshot, request);
  ASSERT_EQ(decision.refused.size(), 3u);
  EXPECT_EQ(decision.refused[0].why.cause, Cause::kCordoned);
  EXPECT_EQ(decision.refused[1].why.cause, Cause::kDraining);
  EXPECT_EQ(decision.refused[2].why.cause, Cause::kTaint);
  request.tolerations = {{.key = "team", .value = "vision"}};
  EXPECT_EQ(lend(snapshot, 1, request), "c");
}

TEST(Placement, HeedsModelCapabilityAndLabels) {
  pool::Node old = node_of("old", 1), labelled = node_of("new", 1);
  old.devices[0].model = "NVIDIA A100";
  old.devices[0].capability = {8, 0};
  labelled.labels = {{"zone", "east"}};
  Snapshot snapshot = pool_of({old, labelled});
  pool::Request by_model = request_of(1), by_capability = request_of(1), by_label = request_of(1);
  by_model.model = "a100";
  by_capability.capability = {9, 0};
  by_label.node_labels = {{"zone", "east"}};
  EXPECT_EQ(lend(snapshot, 1, by_model), "old");
  EXPECT_EQ(lend(snapshot, 2, by_capability), "new");
  EXPECT_EQ(lend(snapshot, 3, by_label), "new");
}

TEST(Placement, LeavesAnExclusiveDeviceAlone) {
  Snapshot snapshot = pool_of({node_of("a", 1)});
  pool::Request request = request_of(1);
  request.isolation = Isolation::kExclusive;
  ASSERT_EQ(lend(snapshot, 1, request), "a");
  const pool::Decision next = place(snapshot, request_of(1));
  ASSERT_FALSE(next.is_placed());
  EXPECT_EQ(next.refused[0].why.cause, Cause::kIsolation);
  EXPECT_TRUE(snapshot.release(1));
  EXPECT_TRUE(place(snapshot, request_of(1)).is_placed());
}

TEST(Placement, KeepsApartWhoWantsToBeApartInBothDirections) {
  Snapshot snapshot = pool_of({node_of("a", 4), node_of("b", 4)});
  pool::Request shy = request_of(1), loud = request_of(1);
  shy.anti_affinity = {{"load", "heavy"}};
  loud.labels = {{"load", "heavy"}};
  const std::string first = lend(snapshot, 1, shy);
  EXPECT_NE(lend(snapshot, 2, loud), first);
}

TEST(Placement, GoesNearTheClient) {
  Snapshot snapshot = pool_of({node_of("a", 1, "r1"), node_of("b", 1, "r2")});
  pool::Request request = request_of(1);
  request.origin.rack = "r2";
  EXPECT_EQ(lend(snapshot, 1, request), "b");
}

TEST(Placement, KeepsOthersOffWhatIsReserved) {
  Snapshot snapshot = pool_of({node_of("a", 1)});
  pool::Reservations reservations;
  ASSERT_TRUE(reservations.add({.job = 7, .places = {{.node = 0, .device = 0}}, .free_at = {}}));
  const pool::Decision other = place(snapshot, request_of(1), reservations, 8);
  ASSERT_FALSE(other.is_placed());
  EXPECT_EQ(other.refused[0].why.cause, Cause::kReserved);
  EXPECT_TRUE(place(snapshot, request_of(1), reservations, 7).is_placed());
  EXPECT_FALSE(reservations.add({.job = 8, .places = {{.node = 0, .device = 0}}, .free_at = {}}));
}

TEST(Placement, IsDecidedAgainWhenTheNodeHasChanged) {
  // Broken: two schedulers lend the same memory.
  Snapshot snapshot = pool_of({node_of("a", 1)});
  const pool::Decision decision = place(snapshot, request_of(50));
  ASSERT_TRUE(check_basis(snapshot, decision));
  ASSERT_EQ(lend(snapshot, 1, request_of(50)), "a");
  EXPECT_EQ(check_basis(snapshot, decision).error().code, ErrorCode::kExhausted);
  EXPECT_EQ(snapshot.grant(lease_of(2, request_of(50), decision)).error().code,
            ErrorCode::kExhausted)
      << "and even then nothing is lent twice";
}

TEST(Placement, RefusesRequestsThatCannotBe) {
  for (const auto& change : std::vector<void (*)(pool::Request&)>{
           [](pool::Request& r) { r.tenant.clear(); }, [](pool::Request& r) { r.gpus = 0; },
           [](pool::Request& r) { r.size.compute_permille = 1001; },
           [](pool::Request& r) { r.memory_part = 1001; }}) {
    pool::Request request = request_of(1);
    change(request);
    EXPECT_EQ(check(request).error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_TRUE(check(request_of(1)));
}

TEST(Placement, NeverOvercommitsWhateverComesAndGoes) {
  std::vector<pool::Node> nodes;
  for (int i = 0; i < 24; ++i)
    nodes.push_back(node_of("n" + std::to_string(i), 8, "r" + std::to_string(i / 8)));
  Snapshot snapshot = pool_of(std::move(nodes));
  std::mt19937 random(1);
  std::vector<pool::LeaseId> leases;
  unsigned placed = 0, refused = 0;
  for (pool::LeaseId id = 1; id <= 3000; ++id) {
    pool::Request request = request_of(1 + static_cast<std::int64_t>(random() % 80),
                                       50 * (1 + random() % 20), random() % 10 == 0 ? 4 : 1);
    request.cls = random() % 4 == 0 ? pool::Class::kInteractive : pool::Class::kStandard;
    if (random() % 10 == 0) request.isolation = Isolation::kExclusive;
    const pool::Decision decision = place(snapshot, request);
    if (decision.is_placed()) {
      ++placed;
      ASSERT_EQ(decision.parts.size(), request.gpus) << "all of it or nothing";
      ASSERT_TRUE(snapshot.grant(lease_of(id, request, decision)));
      leases.push_back(id);
    } else {
      ++refused;
      ASSERT_FALSE(why_not(snapshot, request, decision).empty());
    }
    while (!leases.empty() && random() % 5 < 2) {
      std::swap(leases[random() % leases.size()], leases.back());
      ASSERT_TRUE(snapshot.release(leases.back()));
      leases.pop_back();
    }
  }
  EXPECT_GT(placed, 500u);
  EXPECT_GT(refused, 50u);
  for (const pool::LeaseId id : leases) ASSERT_TRUE(snapshot.release(id));
  for (std::uint32_t node = 0; node < 24; ++node)
    for (std::uint32_t device = 0; device < 8; ++device)
      EXPECT_EQ(snapshot.free({node, device}), snapshot.device({node, device}).size());
}

}  // namespace
}  // namespace sluice::test
