// The thread that hands turns over, and the workers' side of it: both ends in one process, with
// real time, so nothing here depends on how long anything takes.
#include "server/turns/turn_server.h"

#include "server/worker/turns.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;
using server::Turns;
using server::turns::Seat;
using server::turns::TurnOptions;
using server::turns::TurnServer;

constexpr std::uint64_t kPatienceNs = 10'000'000;

Fd copy_of(int fd) {
  return Fd(::dup(fd));
}

/// A worker's end.
std::unique_ptr<Turns> join(TurnServer& server, std::uint64_t session, const std::string& tenant,
                            const scheduler::Share& share = {}) {
  const auto seat = server.attach(session, tenant, share);
  if (!seat) return nullptr;
  auto grants = server::turns::map_grants(copy_of(seat->grants));
  auto uses = server::turns::map_uses(copy_of(seat->uses));
  if (!grants || !uses) return nullptr;
  return std::make_unique<Turns>(std::move(*grants), std::move(*uses), copy_of(seat->bell));
}

std::unique_ptr<TurnServer> make_server(TurnOptions options = {},
                                        TurnServer::Overrun on_overrun = {}) {
  auto server = TurnServer::start("fair-share", options, std::move(on_overrun));
  return server ? std::move(*server) : nullptr;
}

/// Waits for the turn, however late the machine lets it come.
void begin(Turns& turns) {
  while (!turns.begin(0, kPatienceNs)) {
  }
}

/// Computes in small blocks, as softgpu does.
class Computing {
 public:
  Computing(Turns& turns, std::atomic<int>& inside)
      : thread_([this, &turns, &inside] {
          turns.add_work(0);
          while (!stops_) {
            if (!turns.begin(0, kPatienceNs)) continue;
            has_overlapped_ = has_overlapped_ || inside.fetch_add(1) != 0;
            ++blocks_;
            inside.fetch_sub(1);
            turns.end(0);
          }
          turns.remove_work(0);
        }) {}
  ~Computing() { stop(); }
  void stop() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] bool has_overlapped() const { return has_overlapped_; }
  [[nodiscard]] std::uint64_t blocks() const { return blocks_; }

 private:
  std::atomic<bool> stops_{false}, has_overlapped_{false};
  std::atomic<std::uint64_t> blocks_{0};
  std::thread thread_;
};

TEST(TurnServer, NeverLetsTwoSessionsComputeAtOnce) {
  const auto server = make_server();
  ASSERT_NE(server, nullptr);
  std::atomic<int> inside{0};
  std::vector<std::unique_ptr<Turns>> workers;
  std::vector<std::unique_ptr<Computing>> computing;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    workers.push_back(join(*server, i, "tenant" + std::to_string(i)));
    ASSERT_NE(workers.back(), nullptr);
    server->set_device_count(i, 1);
    computing.push_back(std::make_unique<Computing>(*workers.back(), inside));
  }
  for (const auto& one : computing)
    while (one->blocks() < 1000) std::this_thread::yield();  // everybody has turns, again and again
  for (const auto& one : computing) one->stop();
  for (const auto& one : computing) EXPECT_FALSE(one->has_overlapped());
}

TEST(TurnServer, GivesNothingBeforeTheDevicesAreKnown) {
  const auto server = make_server();
  const auto turns = join(*server, 1, "a");
  turns->add_work(0);
  EXPECT_FALSE(turns->begin(0, kPatienceNs));
  server->set_device_count(1, 1);
  turns->remove_work(0);
  turns->add_work(0);
  begin(*turns);
  turns->end(0);
}

TEST(TurnServer, GivesTheDeviceOnWhenASessionIsDetached) {
  const auto server = make_server();
  const auto first = join(*server, 1, "a");
  const auto second = join(*server, 2, "b");
  server->set_device_count(1, 1);
  server->set_device_count(2, 1);
  first->add_work(0);
  begin(*first);
  second->add_work(0);
  EXPECT_FALSE(second->begin(0, kPatienceNs));
  server->detach(1);  // its worker was killed while it computed
  begin(*second);
  second->end(0);
}

TEST(TurnServer, LeavesNobodyRunningUncappedWhenItStops) {
  auto server = make_server({.lease = 50ms});
  const auto turns = join(*server, 1, "a");
  server->set_device_count(1, 1);
  turns->add_work(0);
  begin(*turns);
  turns->end(0);
  server.reset();
  // Nobody closes anything any more; what it was given runs out.
  while (turns->begin(0, kPatienceNs)) turns->end(0);
}

TEST(TurnServer, TellsOfASessionThatDoesNotStopComputing) {
  std::atomic<std::uint64_t> warned{0}, ended{0};
  const auto server = make_server(
      {.kernel_max = 100ms},
      [&](std::uint64_t session, auto, bool is_final) { (is_final ? ended : warned) = session; });
  const auto first = join(*server, 1, "a");
  const auto second = join(*server, 2, "b");
  server->set_device_count(1, 1);
  server->set_device_count(2, 1);
  first->add_work(0);
  begin(*first);
  second->add_work(0);
  while (ended == 0) std::this_thread::yield();
  EXPECT_EQ(warned, 1u);
  EXPECT_EQ(ended, 1u);
}

TEST(TurnServer, ChargesWhatASessionComputed) {
  const auto server = make_server();
  const auto turns = join(*server, 1, "a");
  server->set_device_count(1, 1);
  std::atomic<int> inside{0};
  {
    Computing computing(*turns, inside);
    while (turns->busy_us() < 20'000) std::this_thread::yield();
  }
  while (server->time_of("a").total_served() == 0ns) std::this_thread::yield();
  EXPECT_LE(server->time_of("a").total_served(), std::chrono::microseconds(turns->busy_us()));
}

TEST(TurnServer, IsAliveWhileItsThreadWorks) {
  const auto server = make_server();
  EXPECT_TRUE(server->is_alive());
}

TEST(TurnServer, RefusesAPolicyThatThereIsNot) {
  const auto server = TurnServer::start("lottery", {}, {});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, ErrorCode::kInvalidArgument);
}

TEST(TurnPages, CannotBeWrittenByWhoeverIsGivenTheGrants) {
  // Broken: a worker, in which tenants' kernels run, opens its own turn.
  const auto grants = server::turns::make_grants();
  ASSERT_TRUE(grants);
  const Fd given = copy_of(grants->fd());
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, given.get(), 0), MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  const char byte = 1;
  EXPECT_EQ(::pwrite(given.get(), &byte, 1, 0), -1);
  EXPECT_EQ(::ftruncate(given.get(), 0), -1);
  EXPECT_TRUE(server::turns::map_grants(copy_of(grants->fd())));
}

TEST(TurnPages, OfTheWrongSizeAreRefused) {
  Fd fd(::memfd_create("short", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(fd.get(), 16), 0);
  EXPECT_FALSE(server::turns::map_uses(std::move(fd)));
  EXPECT_FALSE(server::turns::map_grants(Fd()));
}

TEST(TurnsOfAWorker, MeasureThreadsThatComputeAtOnceOnce) {
  const auto server = make_server();
  const auto turns = join(*server, 1, "a");
  server->set_device_count(1, 1);
  turns->add_work(0);
  begin(*turns);
  const auto from = std::chrono::steady_clock::now();
  ASSERT_TRUE(turns->begin(0, kPatienceNs));
  while (turns->busy_us() < 5000) std::this_thread::yield();
  turns->end(0);
  turns->end(0);
  const auto wall = std::chrono::steady_clock::now() - from;
  // The first began a moment before `from`.
  EXPECT_LT(std::chrono::microseconds(turns->busy_us()), wall + 5ms);
  const std::uint64_t before = turns->busy_us();
  std::this_thread::sleep_for(1ms);
  EXPECT_EQ(turns->busy_us(), before) << "nothing computes";
}

}  // namespace
}  // namespace sluice::test
