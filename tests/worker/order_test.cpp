// What a client may rely on: nothing is answered before the work is done, and a completion comes
// after everything that it implies.
#include "tests/worker/client.h"

#include <atomic>

namespace sluice::test {
namespace {

class WorkerOrder : public WorkerClient {};

TEST_F(WorkerOrder, SendsTheDataOfACopyBeforeTheEventBehindIt) {
  start();
  create_event(5);
  driver_.hold();
  read(0, 600'000, 9);
  record(5, 0, 1);
  settle();
  EXPECT_TRUE(received_.empty());
  driver_.finish_all();
  std::uint64_t bytes = 0;
  for (;;) {
    const Received next = receive();
    if (next.is(wire::Opcode::event_done)) break;
    if (next.is(wire::Opcode::host_data)) bytes += next.as<wire::host_data>().data_bytes;
  }
  EXPECT_EQ(600'000u, bytes);
}

TEST_F(WorkerOrder, SendsTheDataOfAnotherStreamBeforeAnEventThatImpliesIt) {
  // Everything finishes between the query of the copy and that of the event.
  std::atomic<CUstream> trigger{nullptr};
  driver_.on_query = [&](CUstream stream) {
    if (stream != nullptr && stream == trigger) driver_.finish_all();
  };
  start();
  create_stream(2);
  create_stream(3);
  create_event(5);
  settle();
  driver_.hold();
  read(2, 16, 9);
  memset(3);
  settle();
  EXPECT_TRUE(received_.empty());
  trigger = driver_.streams().at(1);
  record(5, 3, 1);
  EXPECT_TRUE(receive().is(wire::Opcode::host_data));
  receive(wire::Opcode::event_done);
}

// Whoever waited in another stream for the client's event is answered as soon as that has happened:
// the worker's own event behind it must not be what counts.
class WorkerRecords : public WorkerClient {
 protected:
  /// Events of the worker's own are late from the start; event 5 is the client's.
  void start_with_late_events() {
    driver_.is_late = [this](CUevent event) { return is_late_ && event != driver_.events()[0]; };
    start();
    create_event(5);
    create_stream(2);
    create_stream(3);
    settle();
  }
  [[nodiscard]] bool has_event_done(std::uint64_t version) const {
    return std::any_of(received_.begin(), received_.end(), [&](const Received& r) {
      return r.is(wire::Opcode::event_done) && r.as<wire::event_done>().version == version;
    });
  }
  std::atomic<bool> is_late_{true};
};

TEST_F(WorkerRecords, AreDoneWithTheClientsEvent) {
  start_with_late_events();
  driver_.hold();
  memset(2);
  record(5, 2, 1);
  settle();
  EXPECT_FALSE(has_event_done(1));
  driver_.finish_all();
  EXPECT_EQ(1u, receive(wire::Opcode::event_done).as<wire::event_done>().version);
}

TEST_F(WorkerRecords, AreNotDoneWithALaterRecordOfTheSameEvent) {
  start_with_late_events();
  driver_.hold();
  memset(2);
  record(5, 2, 1);
  record(5, 3, 2);  // nothing is in stream 3
  EXPECT_EQ(2u, receive(wire::Opcode::event_done).as<wire::event_done>().version);
  settle();
  EXPECT_FALSE(has_event_done(1));
  is_late_ = false;
  driver_.finish_all();
  EXPECT_EQ(1u, receive(wire::Opcode::event_done).as<wire::event_done>().version);
}

TEST_F(WorkerRecords, OfADestroyedEventAreDoneWithoutIt) {
  start_with_late_events();
  driver_.hold();
  memset(2);
  record(5, 2, 1);
  wire::cuEventDestroy_v2 destroy{};
  destroy.hEvent = 5;
  post(destroy);
  settle();
  EXPECT_FALSE(has_event_done(1));
  is_late_ = false;
  driver_.finish_all();
  receive(wire::Opcode::event_done);
  EXPECT_EQ(0u, driver_.count("query_of_no_event"));
}

TEST_F(WorkerOrder, SendsAnEventBeforeTheContextWaitBehindIt) {
  start();
  create_stream(2);
  create_event(5);
  driver_.hold();
  memset(2);
  record(5, 2, 1);
  const std::uint64_t wait = ask_context_wait();
  settle();
  driver_.finish_all();
  EXPECT_TRUE(receive().is(wire::Opcode::event_done));
  EXPECT_TRUE(receive().is_reply_to(wait));
}

TEST_F(WorkerOrder, AnswersAContextWaitWhenTheLastStreamIsDone) {
  start();
  create_stream(2);
  create_stream(3);
  driver_.hold();
  memset(2);
  memset(3);
  memset(0);
  const std::uint64_t wait = ask_context_wait();
  settle();
  EXPECT_FALSE(has_reply(wait));
  driver_.finish_all();
  EXPECT_EQ(CUDA_SUCCESS, await([&](const Received& r) { return r.is_reply_to(wait); }).result());
}

TEST_F(WorkerOrder, WaitsForAStreamThatWasDestroyed) {
  start();
  create_stream(2);
  driver_.hold();
  memset(2);
  wire::cuStreamDestroy_v2 destroy{};
  destroy.hStream = 2;
  post(destroy);
  const std::uint64_t wait = ask_context_wait();
  settle();
  EXPECT_FALSE(has_reply(wait));
  EXPECT_EQ(0u, driver_.count("stream_destroy"));
  driver_.finish_all();
  await([&](const Received& r) { return r.is_reply_to(wait); });
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, await([seq = ask_stream_wait(2)](const Received& r) {
                                         return r.is_reply_to(seq);
                                       }).result());
  // A wait of the context lets go of streams that are done.
  await([seq = ask_context_wait()](const Received& r) { return r.is_reply_to(seq); });
  EXPECT_EQ(1u, driver_.count("stream_destroy"));
}

TEST_F(WorkerOrder, ServesAnIdleStreamWhileAnotherIsBusy) {
  start();
  create_stream(2);
  create_stream(3);
  settle();
  driver_.hold();
  memset(2);
  const std::uint64_t busy = ask_stream_wait(2);
  const std::uint64_t idle = ask_stream_wait(3);
  await([&](const Received& r) { return r.is_reply_to(idle); });
  EXPECT_FALSE(has_reply(busy));
  driver_.finish_all();
  await([&](const Received& r) { return r.is_reply_to(busy); });
}

TEST_F(WorkerOrder, AnswersAWaitThatIsFollowedByOneOfAnIdleStream) {
  // The decode thread answers the second one itself, and takes the first one over on the way,
  // before the completer's thread is awake: that must not go back to sleep then.
  start();
  create_stream(2);
  create_stream(3);
  settle();
  const CUstream busy_stream = driver_.streams().at(0);
  driver_.hold();
  for (int round = 0; round < 200; ++round) {
    memset(2);
    const std::uint64_t busy = ask_stream_wait(2);
    const std::uint64_t idle = ask_stream_wait(3);
    await([&](const Received& r) { return r.is_reply_to(idle); });
    driver_.finish(busy_stream);
    await([&](const Received& r) { return r.is_reply_to(busy); });
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

TEST_F(WorkerOrder, AsksOnlyStreamsThatHaveWork) {
  start();
  for (std::uint64_t id = 2; id < 34; ++id) {
    create_stream(id);
    memset(id);
  }
  await([seq = ask_context_wait()](const Received& r) { return r.is_reply_to(seq); });
  const std::size_t before = driver_.count("event_record");
  await([seq = ask_context_wait()](const Received& r) { return r.is_reply_to(seq); });
  EXPECT_LE(driver_.count("event_record") - before, 2u);
}

TEST_F(WorkerOrder, AnswersTheWaitsOfManyThreadsEachWithItsOwn) {
  constexpr std::uint64_t kThreads = 16;
  start();
  driver_.hold();
  std::vector<std::uint64_t> waits;
  for (std::uint64_t i = 0; i < kThreads; ++i) create_stream(10 + i);
  for (std::uint64_t round = 0; round < 20; ++round)
    for (std::uint64_t i = 0; i < kThreads; ++i) {
      memset(10 + i);
      read(10 + i, 8, 100 + i);
      waits.push_back(ask_stream_wait(10 + i));
    }
  settle();
  driver_.finish_all();
  for (const std::uint64_t wait : waits)
    EXPECT_EQ(CUDA_SUCCESS, await([&](const Received& r) { return r.is_reply_to(wait); }).result());
}

TEST_F(WorkerOrder, LetsManySmallCopiesWaitBehindALongKernel) {
  constexpr std::uint64_t kCopies = 5000;
  start();
  driver_.hold();
  memset(0);
  const std::uint64_t value = 0;
  wire::copy_h2d copy{};
  copy.data_bytes = sizeof value;
  for (std::uint64_t i = 0; i < kCopies; ++i) post(copy, {std::as_bytes(std::span(&value, 1))});
  const std::uint64_t wait = ask_stream_wait(0);
  settle();
  EXPECT_TRUE(received_.empty());
  driver_.finish_all();
  await([&](const Received& r) { return r.is_reply_to(wait); });
  std::uint64_t credit = 0;
  for (const Received& r : received_)
    if (r.is(wire::Opcode::copy_credit)) credit += r.as<wire::copy_credit>().h2d_bytes;
  EXPECT_EQ(kCopies * sizeof value, credit);
}

TEST_F(WorkerOrder, MakesOtherStreamsWaitForAnOrderedUploadAndForNothingElse) {
  start();
  create_stream(2);
  create_stream(3);
  driver_.hold();
  const std::uint64_t value = 0;
  wire::copy_h2d copy{};
  copy.data_bytes = sizeof value;
  copy.stream = 2;
  post(copy, {std::as_bytes(std::span(&value, 1))});
  memset(3);
  settle();
  EXPECT_EQ(0u, driver_.count("wait_event")) << "an upload that only its stream relies on";
  copy.is_ordered = 1;
  post(copy, {std::as_bytes(std::span(&value, 1))});
  post(copy, {std::as_bytes(std::span(&value, 1))});
  memset(2);
  settle();
  EXPECT_EQ(0u, driver_.count("wait_event")) << "the stream itself";
  memset(3);
  memset(3);
  settle();
  EXPECT_EQ(1u, driver_.count("wait_event")) << "another one, once";
  driver_.finish_all();
  const std::uint64_t wait = ask_context_wait();
  await([&](const Received& r) { return r.is_reply_to(wait); });
  memset(0);
  settle();
  EXPECT_EQ(1u, driver_.count("wait_event")) << "the upload is complete";
}

TEST_F(WorkerOrder, RunsAHostFunctionAfterTheDataBeforeIt) {
  start();
  read(0, 100'000, 9);
  wire::host_func function{};
  function.token = 41;
  post(function);
  const std::uint64_t wait = ask_stream_wait(0);
  const Received run = receive(wire::Opcode::host_func_run);
  EXPECT_EQ(41u, run.as<wire::host_func_run>().token);
  EXPECT_TRUE(std::any_of(received_.begin(), received_.end(),
                          [](const Received& r) { return r.is(wire::Opcode::host_data); }));
  settle();
  EXPECT_FALSE(has_reply(wait));
  wire::host_func_done done{};
  done.token = 41;
  post(done);
  await([&](const Received& r) { return r.is_reply_to(wait); });
}

TEST_F(WorkerOrder, EndsAHostFunctionWithTheSession) {
  start();
  wire::host_func function{};
  function.token = 41;
  post(function);
  receive(wire::Opcode::host_func_run);
  channel_->close();
  driver_.join();
  EXPECT_EQ(1u, driver_.count("host_function_over"));
}

}  // namespace
}  // namespace sluice::test
