#include "shim/optimisations.h"

#include <gtest/gtest.h>

namespace sluice::shim {
namespace {

TEST(Optimisations, AreOnUnlessNamed) {
  std::string unknown;
  const Optimisations all = parse_disabled("", &unknown);
  EXPECT_TRUE(all.posted_calls && all.batching && all.idle_flush && all.inline_payloads &&
              all.local_queries);
  const Optimisations some = parse_disabled("batching,local-queries", &unknown);
  EXPECT_FALSE(some.batching || some.local_queries);
  EXPECT_TRUE(some.posted_calls && some.idle_flush && some.inline_payloads);
  EXPECT_EQ("", unknown);
}

TEST(Optimisations, AnUnknownNameIsToldWithTheKnownOnes) {
  std::string unknown;
  const Optimisations some = parse_disabled("bathing,idle-flush", &unknown);
  EXPECT_FALSE(some.idle_flush) << "the others still count";
  EXPECT_NE(std::string::npos, unknown.find("\"bathing\""));
  EXPECT_NE(std::string::npos, unknown.find("batching"));
  EXPECT_NE(std::string::npos, unknown.find("local-queries"));
}

}  // namespace
}  // namespace sluice::shim
