// Every promise of `sluicectl bench quota` is kept; and most would not be without a policy.
#include "scheduler/simulation/proof.h"

#include "scheduler/simulation/simulation.h"

#include <gtest/gtest.h>

namespace sluice::test {
namespace {

using namespace scheduler::simulation;

class Proof : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Proof, IsKept) {
  const Promise promise = promises().at(GetParam());
  const double figure = promise.measure("fair-share");
  EXPECT_TRUE(promise.is_kept(figure))
      << promise.name << ": " << figure << " " << promise.unit << ", bound " << promise.bound;
}

INSTANTIATE_TEST_SUITE_P(Promises, Proof, ::testing::Range<std::size_t>(0, promises().size()));

TEST(ProofNative, ShowsWhatThePolicyIsFor) {
  std::size_t broken = 0;
  for (const Promise& promise : promises())
    if (!promise.is_kept(promise.measure(kNative))) ++broken;
  EXPECT_GE(broken, 8u) << "promises that hold by themselves prove nothing";
}

}  // namespace
}  // namespace sluice::test
