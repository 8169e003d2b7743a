// The dispatcher's contract, ticket by ticket.
#include "scheduler/device/dispatcher.h"

#include "scheduler/device/cost_model.h"

#include <gtest/gtest.h>

namespace sluice::scheduler {
namespace {

using namespace std::chrono_literals;
using Tickets = std::vector<Ticket>;

class DispatcherTest : public ::testing::Test {
 protected:
  void enqueue(TenantId tenant, Ticket first, Ticket last, Duration estimate) {
    for (Ticket ticket = first; ticket <= last; ++ticket)
      dispatcher_.enqueue(tenant, ticket, estimate, now_);
  }
  Tickets dispatch() { return dispatcher_.dispatch(now_); }
  Time now_ = 1s;
  Dispatcher dispatcher_{make_policy("fair-share"), {.window = 1ms, .tickets_max = 4}};
};

TEST_F(DispatcherTest, GrantsATenantsTicketsInOrderUpToTheWindow) {
  dispatcher_.set_share(1, {}, now_);
  enqueue(1, 1, 5, 400us);
  EXPECT_EQ((Tickets{1, 2}), dispatch());
  EXPECT_EQ(Tickets{}, dispatch());
  EXPECT_TRUE(dispatcher_.complete(1, 400us, now_ += 400us));
  EXPECT_EQ(Tickets{3}, dispatch());
}

TEST_F(DispatcherTest, GrantsOneTicketHoweverLong) {
  dispatcher_.set_share(1, {}, now_);
  enqueue(1, 1, 2, 1h);
  EXPECT_EQ(Tickets{1}, dispatch());
}

TEST_F(DispatcherTest, BoundsTheNumberUnderWay) {
  dispatcher_.set_share(1, {}, now_);
  enqueue(1, 1, 10, 1ns);
  EXPECT_EQ((Tickets{1, 2, 3, 4}), dispatch());
}

TEST_F(DispatcherTest, GrantsLittleOfWhatWasNeverSeen) {
  dispatcher_.set_share(1, {}, now_);
  for (Ticket ticket = 1; ticket <= 5; ++ticket) dispatcher_.enqueue(1, ticket, {}, now_);
  EXPECT_EQ((Tickets{1, 2}), dispatch());
}

TEST_F(DispatcherTest, NarrowsTheWindowWhileALatencyClassIsAttached) {
  dispatcher_.set_share(1, {}, now_);
  dispatcher_.set_share(2, {.cls = Class::kInteractive}, now_);
  enqueue(1, 1, 5, 400us);
  EXPECT_EQ(Tickets{1}, dispatch());
  dispatcher_.remove(2, now_);
  EXPECT_EQ(Tickets{2}, dispatch());
}

TEST_F(DispatcherTest, LetsNobodyShorterPassWhoseTurnItIs) {
  dispatcher_.set_share(1, {}, now_);
  dispatcher_.set_share(2, {}, now_);
  enqueue(1, 1, 1, 900us);
  EXPECT_EQ(Tickets{1}, dispatch());
  enqueue(2, 2, 2, 900us);
  enqueue(1, 3, 3, 10us);
  EXPECT_EQ(Tickets{}, dispatch()) << "tenant 2 has had less and waits for the window";
}

TEST_F(DispatcherTest, ForgetsACancelledTicket) {
  dispatcher_.set_share(1, {}, now_);
  enqueue(1, 1, 3, 900us);
  EXPECT_EQ(Tickets{1}, dispatch());
  EXPECT_TRUE(dispatcher_.cancel(2, now_));
  EXPECT_TRUE(dispatcher_.cancel(1, now_)) << "granted: it leaves the window";
  EXPECT_EQ(0ns, dispatcher_.under_way());
  EXPECT_EQ(900us, dispatcher_.account(1).served) << "and is billed as estimated";
  EXPECT_EQ(Tickets{3}, dispatch());
  EXPECT_FALSE(dispatcher_.cancel(2, now_));
}

TEST_F(DispatcherTest, KeepsWhatIsUnderWayOfARemovedTenantInTheWindow) {
  dispatcher_.set_share(1, {}, now_);
  dispatcher_.set_share(2, {}, now_);
  enqueue(1, 1, 2, 900us);
  EXPECT_EQ(Tickets{1}, dispatch());
  dispatcher_.remove(1, now_);
  enqueue(2, 3, 3, 900us);
  EXPECT_EQ(Tickets{}, dispatch()) << "the device is still busy with it";
  EXPECT_TRUE(dispatcher_.complete(1, 900us, now_ += 900us));
  EXPECT_EQ(Tickets{3}, dispatch()) << "and what had waited is gone";
}

TEST_F(DispatcherTest, KnowsNoTicketTwiceCompletedOrNeverGiven) {
  dispatcher_.set_share(1, {}, now_);
  enqueue(1, 1, 1, 10us);
  EXPECT_FALSE(dispatcher_.complete(1, 10us, now_)) << "not granted yet";
  EXPECT_EQ(Tickets{1}, dispatch());
  EXPECT_TRUE(dispatcher_.complete(1, 10us, now_));
  EXPECT_FALSE(dispatcher_.complete(1, 10us, now_));
  EXPECT_FALSE(dispatcher_.complete(99, 10us, now_));
  dispatcher_.enqueue(7, 5, 10us, now_);  // not attached
  EXPECT_EQ(Tickets{}, dispatch());
}

TEST_F(DispatcherTest, SaysWhenALimitWillLetGo) {
  dispatcher_.set_share(1, {.limit = 0.1}, now_);
  enqueue(1, 1, 2, 10ms);
  EXPECT_EQ(Tickets{1}, dispatch());
  EXPECT_TRUE(dispatcher_.complete(1, 20ms, now_ += 20ms));
  EXPECT_EQ(Tickets{}, dispatch());
  const Time next = dispatcher_.next_look(now_);
  EXPECT_EQ(now_ + 180ms, next) << "20 ms at a tenth of the device, of which 20 ms have passed";
  now_ = next - 1ms;
  EXPECT_EQ(Tickets{}, dispatch());
  now_ = next;
  EXPECT_EQ(Tickets{2}, dispatch());
  EXPECT_EQ(Time::max(), dispatcher_.next_look(now_));
  const Account account = dispatcher_.account(1);
  EXPECT_EQ(180ms, account.held[static_cast<std::size_t>(Reason::kLimit)]);
}

TEST(CostModelTest, FollowsWhatItSees) {
  CostModel model;
  EXPECT_EQ(std::nullopt, model.estimate(1));
  model.learn(1, 1ms);
  EXPECT_EQ(1ms, model.estimate(1));
  for (int i = 0; i < 9; ++i) model.learn(1, 3ms);
  EXPECT_NEAR(3e6, static_cast<double>(model.estimate(1)->count()), 0.3e6);
  model.forget(1);
  EXPECT_EQ(std::nullopt, model.estimate(1));
}

TEST(CostModelTest, MovesLittleWithOneOutlier) {
  CostModel model;
  for (int i = 0; i < 20; ++i) model.learn(1, 1ms);
  model.learn(1, 2ms);
  EXPECT_LE(model.estimate(1), 1200us);
}

TEST(CostModelTest, ForgetsWhatWasNotUsedForLongest) {
  CostModel model(2);
  model.learn(1, 1ms);
  model.learn(2, 2ms);
  model.learn(1, 1ms);
  model.learn(3, 3ms);
  EXPECT_EQ(2u, model.size());
  EXPECT_EQ(std::nullopt, model.estimate(2));
  EXPECT_EQ(1ms, model.estimate(1));
}

TEST(CostModelTest, TellsShapesApart) {
  const auto key = [](std::uint64_t blocks, std::uint32_t threads) {
    return CostModel::key_of(0x1000, blocks, threads, 0);
  };
  EXPECT_EQ(key(1000, 256), key(1005, 256)) << "about as many blocks";
  EXPECT_NE(key(1000, 256), key(2000, 256));
  EXPECT_NE(key(1000, 256), key(1000, 128));
  EXPECT_NE(CostModel::key_of(0x1000, 1, 1, 0), CostModel::key_of(0x2000, 1, 1, 0));
}

TEST(ShareTest, IsChecked) {
  EXPECT_TRUE(check(Share{}).has_value());
  EXPECT_FALSE(check(Share{.limit = 0}).has_value());
  EXPECT_FALSE(check(Share{.limit = 1.5}).has_value());
  EXPECT_FALSE(check(Share{.guarantee = -0.1}).has_value());
  EXPECT_FALSE(check(Share{.guarantee = 0.5, .limit = 0.4}).has_value());
  EXPECT_FALSE(check(Share{.weight = 0}).has_value());
  EXPECT_FALSE(check(Share{.weight = 1e9}).has_value());
}

TEST(ShareTest, ClassesHaveNames) {
  for (const Class cls :
       {Class::kBestEffort, Class::kStandard, Class::kInteractive, Class::kRealtime})
    EXPECT_EQ(cls, parse_class(class_name(cls)));
  EXPECT_FALSE(parse_class("urgent").has_value());
}

TEST(TagsTest, KeepVirtualTimeFromGoingBack) {
  Tags tags;
  TenantState ahead;
  ahead.tag_ns = 1e9;
  TenantState behind;
  TenantState newcomer;
  tags.charge(ahead, 1us);
  tags.charge(behind, 1us);
  tags.lift(newcomer);
  EXPECT_EQ(1e9 - 5e6, newcomer.tag_ns) << "now, less the credit of a sleeper";
}

TEST(TagsTest, KeepWhatIsOwedWhenTheShareChanges) {
  Tags tags;
  TenantState other;
  tags.charge(other, 1us);
  TenantState tenant;
  tags.charge(tenant, 30ms);
  tags.change(tenant, {.weight = 3});
  EXPECT_EQ(10e6, tenant.tag_ns) << "30 ms of device time, at three times the weight";
  tags.change(tenant, {.weight = 3, .cls = Class::kRealtime});
  EXPECT_EQ(10e6, tenant.tag_ns) << "and so among its new peers";
}

TEST(PolicyTest, IsMadeByName) {
  for (const char* name : {"fair-share", "strict-slice", "priority"})
    EXPECT_NE(nullptr, make_policy(name)) << name;
  EXPECT_EQ(nullptr, make_policy("first-come"));
}

}  // namespace
}  // namespace sluice::scheduler
