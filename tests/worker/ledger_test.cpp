// The ledger behind the link: no answer is no memory, and a late answer belongs to nobody else.
#include "server/link.h"
#include "server/worker/broker_ledger.h"
#include "server/worker/driver_start.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <future>

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

class BrokerLedgerTest : public ::testing::Test {
 protected:
  BrokerLedgerTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(0, ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
    broker_.reset(ends[0]);
    worker_.reset(ends[1]);
  }
  void start(std::chrono::milliseconds answer_time) {
    ledger_ = std::make_unique<BrokerLedger>(worker_.get(), answer_time);
    ledger_->start([] { return link::Stats{}; }, [this] { gone_.set_value(); });
  }
  ~BrokerLedgerTest() override {
    ledger_->finish();
    broker_.reset();
    gone_.get_future().wait();  // the reader is done with us
  }
  template <class Message>
  Message receive() {
    for (;;) {
      auto received = link::receive_message(broker_.get());
      EXPECT_TRUE(received.has_value());
      if (!received) return {};
      if (auto* found = std::get_if<Message>(&received->message)) return *found;
    }
  }

  Fd broker_, worker_;
  std::promise<void> gone_;
  std::unique_ptr<BrokerLedger> ledger_;
};

TEST_F(BrokerLedgerTest, PassesTheAnswerOn) {
  start(20s);
  auto usage =
      std::async(std::launch::async, [&] { return ledger_->charge(1, MemoryKind::kModule, 4096); });
  const auto charge = receive<link::Charge>();
  EXPECT_EQ(1u, charge.device);
  EXPECT_EQ(4096u, charge.bytes);
  EXPECT_EQ(MemoryKind::kModule, charge.kind);
  ASSERT_TRUE(link::send_message(broker_.get(), link::Answer{true, 4096, 8192}));
  const LedgerLink::Usage got = usage.get();
  EXPECT_TRUE(got.is_granted);
  EXPECT_EQ(8192u, got.limit_bytes);
}

TEST_F(BrokerLedgerTest, GrantsNothingWithoutAnAnswer) {
  start(1ms);
  EXPECT_FALSE(ledger_->charge(0, MemoryKind::kData, 4096).is_granted);
}

TEST_F(BrokerLedgerTest, GivesALateGrantBackAndNeverToTheNextQuestion) {
  start(1ms);
  EXPECT_FALSE(ledger_->charge(0, MemoryKind::kPool, 4096).is_granted);
  receive<link::Charge>();
  ASSERT_TRUE(link::send_message(broker_.get(), link::Answer{true, 4096, 8192}));
  const auto back = receive<link::Refund>();
  EXPECT_EQ(4096u, back.bytes);
  EXPECT_EQ(MemoryKind::kPool, back.kind);
  EXPECT_FALSE(ledger_->charge(0, MemoryKind::kData, 1 << 20).is_granted);
}

TEST_F(BrokerLedgerTest, AnswersAStopWithItsLastStatistics) {
  // Broken: the figures of a session that the broker ends are those of half a second before.
  ledger_ = std::make_unique<BrokerLedger>(worker_.get());
  std::atomic<std::uint64_t> calls{1};
  ledger_->start([&] { return link::Stats{.calls = calls}; }, [this] { gone_.set_value(); });
  while (receive<link::Stats>().calls != 1) {
  }
  calls = 7;
  ASSERT_TRUE(link::send_message(broker_.get(), link::Stop{}));
  while (receive<link::Stats>().calls != 7) {
  }
}

TEST_F(BrokerLedgerTest, SaysThatItLivesAlsoWhenNothingChanges) {
  // Broken: a stopped worker looks like an idle one.
  start(1s);
  receive<link::Stats>();
  receive<link::Stats>();
}

TEST(DriverStart, NamesAPathWithoutALibrary) {
  DriverTable driver;
  const auto started = start_driver("/nonexistent/libcuda.so.1", &driver);
  ASSERT_FALSE(started.has_value());
  EXPECT_NE(std::string::npos, started.error().message.find("/nonexistent/libcuda.so.1"));
}

TEST(DriverStart, NamesALibraryThatIsNoDriver) {
  DriverTable driver;
  const auto started = start_driver("libm.so.6", &driver);
  ASSERT_FALSE(started.has_value());
  EXPECT_NE(std::string::npos, started.error().message.find("libm.so.6"));
}

}  // namespace
}  // namespace sluice::server
