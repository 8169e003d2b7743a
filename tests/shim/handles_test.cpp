// Handles: a stale or invented one must be refused, not followed.
#include "shim/handles.h"

#include "shim/addresses.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice::shim {
namespace {

TEST(HandleTable, FindsOnlyLiveHandlesOfTheirKind) {
  HandleTable table;
  Entry entry;
  entry.id = 42;
  const std::uint64_t handle = table.add(Kind::kStream, entry);
  Entry found;
  ASSERT_TRUE(table.find(Kind::kStream, handle, &found));
  EXPECT_EQ(42u, found.id);
  EXPECT_FALSE(table.find(Kind::kEvent, handle, &found));
  EXPECT_FALSE(table.find(Kind::kStream, handle + 16, &found));
  EXPECT_FALSE(table.find(Kind::kStream, 0xDEADBEEF, &found));
  EXPECT_FALSE(table.find(Kind::kStream, ~std::uint64_t{0}, &found));
  EXPECT_TRUE(table.remove(Kind::kStream, handle, &found));
  EXPECT_FALSE(table.find(Kind::kStream, handle, &found));
  EXPECT_FALSE(table.remove(Kind::kStream, handle, &found)) << "removed twice";
}

TEST(HandleTable, AReusedSlotHasAnotherHandle) {
  HandleTable table;
  std::set<std::uint64_t> seen;
  Entry entry;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t handle = table.add(Kind::kEvent, entry);
    EXPECT_TRUE(seen.insert(handle).second);
    table.remove(Kind::kEvent, handle, &entry);
  }
}

TEST(HandleTable, AFullTableIsAnErrorAndNotACrash) {
  HandleTable table;
  const std::size_t slots = HandleTable::kChunkSlots * HandleTable::kChunksMax;
  for (std::size_t i = 0; i < slots; ++i) ASSERT_NE(0u, table.add(Kind::kEvent, {}));
  EXPECT_EQ(0u, table.add(Kind::kEvent, {}));
}

TEST(HandleTable, TheEndOfAContextEndsWhatBelongsToIt) {
  HandleTable table;
  const std::uint64_t mine = table.add(Kind::kStream, {.id = 1, .owner = 7});
  const std::uint64_t other = table.add(Kind::kStream, {.id = 2, .owner = 8});
  table.remove_owned(7, [](Kind, const Entry&) {});
  Entry found;
  EXPECT_FALSE(table.find(Kind::kStream, mine, &found));
  EXPECT_TRUE(table.find(Kind::kStream, other, &found));
}

TEST(Addresses, FindInteriorAddressesAndCheckBounds) {
  Addresses addresses;
  addresses.add_device({.base = 0x1000, .bytes = 0x100});
  ASSERT_TRUE(addresses.device(0x10FF));
  EXPECT_EQ(0x1000u, addresses.device(0x10FF)->base);
  EXPECT_FALSE(addresses.device(0x1100));
  EXPECT_FALSE(addresses.device(0xFFF));
  EXPECT_TRUE(addresses.is_within(0x1080, 0x80));
  EXPECT_FALSE(addresses.is_within(0x1080, 0x81));
  EXPECT_FALSE(addresses.is_within(0x1080, ~std::size_t{0}));
  EXPECT_TRUE(addresses.remove_device(0x1000));
  EXPECT_FALSE(addresses.remove_device(0x1000));
}

TEST(Addresses, HostRangesDoNotOverlap) {
  Addresses addresses;
  EXPECT_TRUE(addresses.add_host({.base = 0x1000, .bytes = 0x1000}));
  EXPECT_FALSE(addresses.add_host({.base = 0x1800, .bytes = 0x10}));
  EXPECT_FALSE(addresses.add_host({.base = 0x800, .bytes = 0x801}));
  EXPECT_TRUE(addresses.add_host({.base = 0x800, .bytes = 0x800}));
  EXPECT_TRUE(addresses.is_pinned(reinterpret_cast<void*>(0x1FFF), 1));
  EXPECT_FALSE(addresses.is_pinned(reinterpret_cast<void*>(0x1FFF), 2));
}

}  // namespace
}  // namespace sluice::shim
