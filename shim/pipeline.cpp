#include "shim/pipeline.h"

#include "common/log.h"
#include "protocol/session.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sluice::shim {
namespace {

constexpr std::size_t kReadBudgetBytes = 1 << 20;
constexpr std::uint64_t kTimedCalls = 32;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

std::size_t record_bytes(const Outgoing& record) {
  std::size_t bytes = sizeof(wire::RecordHeader) + record.fixed.size();
  for (const Bytes& blob : record.blobs) bytes += wire::padded(blob.size());
  return bytes;
}

}  // namespace

Pipeline::Pipeline(std::unique_ptr<transport::Channel> channel,
                   std::unique_ptr<transport::ByteStream> life_line, bool is_strict,
                   PushHandler& pushes, const Optimisations& optimisations,
                   LifeLine::Heartbeat heartbeat, std::optional<Resumable> resumable)
    : channel_(std::move(channel)),
      life_line_(std::move(life_line), heartbeat, std::move(resumable)),
      is_strict_(is_strict || !optimisations.posted_calls),
      optimisations_(optimisations),
      pushes_(pushes),
      transport_name_(channel_->caps().name),
      inline_bytes_max_(optimisations.inline_payloads
                            ? std::min<std::size_t>(channel_->caps().reserve_bytes_max, 32 * 1024)
                            : 0),
      assembler_(*this) {
  channel_->set_while_blocked([this] { watch_while_blocked(); });
}

Pipeline::~Pipeline() {
  end();
}

void Pipeline::end() noexcept {
  finish(std::chrono::milliseconds(200));
  stops_ = true;
  channel_->close();
  service_word_.wake();
  if (has_service_.exchange(false)) ::pthread_join(service_, nullptr);
}

CUresult Pipeline::post(const Outgoing& record) noexcept {
  if (is_strict_) {
    std::uint64_t nothing = 0;  // the reply of a record without one
    return call(record, {.fixed = {reinterpret_cast<std::byte*>(&nothing), sizeof nothing}}, {});
  }
  traffic_.posted.fetch_add(1, std::memory_order_relaxed);
  return append(record, nullptr);
}

CUresult Pipeline::call(const Outgoing& record, const detail::ReplyShape& shape,
                        std::initializer_list<OutBytes> out) noexcept {
  waits_.fetch_add(1, std::memory_order_relaxed);
  const bool is_timed = traffic_.round_trips.fetch_add(1, std::memory_order_relaxed) < kTimedCalls;
  const auto start = is_timed ? Clock::now() : Clock::time_point();
  Reply reply{.shape = shape, .out = out};
  if (const CUresult refused = append(record, &reply)) return refused;
  const auto done = [&reply] { return reply.is_done.load(std::memory_order_acquire); };
  wait_for(
      Condition{&done, [](const void* f) { return (*static_cast<const decltype(done)*>(f))(); }},
      &reply);
  if (!done()) {
    // The reader may be filling it right now: after this it cannot.
    std::lock_guard lock(replies_mutex_);
    std::erase_if(replies_, [&](const auto& item) { return item.second == &reply; });
    if (!reply.is_done) return kSessionLost;
  }
  if (is_timed) note_round_trip(start);
  return reply.result;
}

CUresult Pipeline::wait(const Condition& done) noexcept {
  waits_.fetch_add(1, std::memory_order_relaxed);
  if (done()) return CUDA_SUCCESS;
  traffic_.round_trips.fetch_add(1, std::memory_order_relaxed);
  wait_for(done, nullptr);
  return done() ? CUDA_SUCCESS : kSessionLost;
}

CUresult Pipeline::append(const Outgoing& record, Reply* reply) noexcept {
  bool is_left_pending = false;
  {
    std::lock_guard lock(send_mutex_);
    if (is_lost()) return kSessionLost;
    const std::uint64_t seq = last_seq_.load(std::memory_order_relaxed) + 1;
    wire::RecordHeader header{};
    header.bytes = static_cast<std::uint32_t>(record_bytes(record));
    header.opcode = static_cast<std::uint16_t>(record.opcode);
    if (reply != nullptr) header.flags = wire::kFlagWantsReply;
    header.seq = seq;
    header.context = record.context;
    if (header.bytes > wire::kRecordBytesMax) return CUDA_ERROR_INVALID_VALUE;
    if (reply != nullptr) {
      std::lock_guard replies_lock(replies_mutex_);
      replies_.emplace(seq, reply);
    }
    last_seq_.store(seq, std::memory_order_relaxed);
    if (record.is_work) last_work_seq_.store(seq, std::memory_order_relaxed);
    if (record.seq != nullptr) record.seq->store(seq);
    const bool is_idle =
        optimisations_.idle_flush && acknowledged_seq_.load(std::memory_order_relaxed) + 1 == seq;
    if (unflushed_records_.load(std::memory_order_relaxed) == 0)
      oldest_ns_.store(now_ns(), std::memory_order_relaxed);
    unflushed_records_.fetch_add(1);
    if (!write(header, record)) {
      const auto status = channel_->flush();
      lose_channel(status ? Error{ErrorCode::kPeerClosed, "the connection to the worker was closed"}
                          : status.error());
      return kSessionLost;
    }
    traffic_.bytes_sent.fetch_add(header.bytes + record.staged_bytes, std::memory_order_relaxed);
    traffic_.bytes_staged.fetch_add(record.staged_bytes, std::memory_order_relaxed);
    if (reply != nullptr || is_idle || record.is_followed || !optimisations_.batching ||
        unflushed_records_.load(std::memory_order_relaxed) >= kFlushRecords ||
        channel_->unflushed_bytes() >= kFlushBytes) {
      flush_locked();
      if (is_lost()) return kSessionLost;
    }
    is_left_pending = unflushed_records_.load(std::memory_order_relaxed) != 0;
  }
  if (is_left_pending) nudge_service();
  return CUDA_SUCCESS;
}

bool Pipeline::write(const wire::RecordHeader& header, const Outgoing& record) noexcept {
  const bool is_inline = header.bytes <= inline_bytes_max_;
  const std::size_t head_bytes = is_inline ? header.bytes : sizeof header + record.fixed.size();
  const std::span<std::byte> space = channel_->reserve(head_bytes);
  if (space.size() < head_bytes) return false;
  std::byte* at = space.data();
  std::memcpy(at, &header, sizeof header);
  at += sizeof header;
  if (!record.fixed.empty()) std::memcpy(at, record.fixed.data(), record.fixed.size());
  at += record.fixed.size();
  if (is_inline) {
    for (const Bytes& blob : record.blobs) {
      if (!blob.empty()) std::memcpy(at, blob.data(), blob.size());
      at += blob.size();
      const std::size_t pad_bytes = wire::padded(blob.size()) - blob.size();
      std::memset(at, 0, pad_bytes);
      at += pad_bytes;
    }
  }
  channel_->commit(head_bytes, transport::FlushHint::kNone);
  if (is_inline) return true;
  is_flushing_ = true;
  nudge_service();
  const bool is_written =
      std::all_of(record.blobs.begin(), record.blobs.end(),
                  [this](const Bytes& blob) { return write_blob_through(blob); });
  is_flushing_ = false;
  return is_written;
}

bool Pipeline::write_blob_through(Bytes blob) noexcept {
  if (!blob.empty() && !channel_->write_through(blob)) return false;
  const std::size_t pad_bytes = wire::padded(blob.size()) - blob.size();
  if (pad_bytes == 0) return true;
  const std::span<std::byte> space = channel_->reserve(pad_bytes);
  if (space.size() < pad_bytes) return false;
  std::memset(space.data(), 0, pad_bytes);
  channel_->commit(pad_bytes, transport::FlushHint::kNone);
  return true;
}

void Pipeline::flush_locked() noexcept {
  // While the peer is slow this blocks; the service thread then reads, so that the worker is never
  // stuck writing to us, and watches the life line.
  is_flushing_ = true;
  if (!optimisations_.batching) nudge_service();  // else it was nudged for what is flushed now
  const auto status = channel_->flush();
  is_flushing_ = false;
  unflushed_records_ = 0;
  if (!status) lose_channel(status.error());
}

void Pipeline::flush() noexcept {
  if (unflushed_records_.load() == 0) return;
  std::lock_guard lock(send_mutex_);
  if (unflushed_records_.load(std::memory_order_relaxed) != 0 && !is_lost()) flush_locked();
}

void Pipeline::poll() noexcept {
  flush();
  if (is_lost() || !receive_mutex_.try_lock()) return;
  read_some();
  receive_mutex_.unlock();
  hand_over();
}

void Pipeline::expect() noexcept {
  if (expected_.fetch_add(1) == 0) nudge_service();
}

void Pipeline::wait_for(const Condition& done, const Reply* reply) noexcept {
  while (!done() && !is_lost()) {
    flush();
    if (receive_mutex_.try_lock()) {
      lead(done);
      receive_mutex_.unlock();
      hand_over();
    } else {
      follow(done, reply);
    }
  }
}

void Pipeline::lead(const Condition& done) noexcept {
  while (!done() && !is_lost()) {
    if (read_some() || is_lost()) continue;
    const auto is_readable = channel_->wait(Clock::now() + kRecheck);
    if (!is_readable) {
      lose_channel(is_readable.error());
    } else if (!*is_readable) {
      check_life_line();
    }
  }
}

void Pipeline::follow(const Condition& done, const Reply* reply) noexcept {
  Sleeper sleeper;
  sleeper.reply = reply;
  {
    std::lock_guard lock(sleepers_mutex_);
    sleepers_.push_back(&sleeper);
  }
  const std::uint32_t seen = sleeper.word.value();
  // The reader that left before we were in the list did not see us; one that leaves from now on
  // does.
  if (receive_mutex_.try_lock()) {
    receive_mutex_.unlock();
  } else if (!done() && !is_lost()) {
    sleeper.word.wait(seen, Clock::now() + kRecheck);
  }
  std::lock_guard lock(sleepers_mutex_);
  std::erase(sleepers_, &sleeper);
}

void Pipeline::hand_over() noexcept {
  std::lock_guard lock(sleepers_mutex_);
  if (!sleepers_.empty()) sleepers_.front()->word.wake();
}

bool Pipeline::read_some() noexcept {
  const auto got = channel_->poll(assembler_, kReadBudgetBytes);
  if (!got) {
    lose_channel(got.error());
    return false;
  }
  traffic_.bytes_received.fetch_add(*got, std::memory_order_relaxed);
  if (*got == 0) return false;
  if (const auto finished = finish_begun(); !finished) lose(finished.error());
  return true;
}

Status Pipeline::finish_begun() {
  SLUICE_TRY(const bool has_finished, pushes_.finish_begun());
  if (has_finished) wake_for_pushes();
  return {};
}

void Pipeline::wake_for_pushes() {
  std::lock_guard lock(sleepers_mutex_);
  for (Sleeper* sleeper : sleepers_)
    if (sleeper->reply == nullptr) sleeper->word.wake();
}

Status Pipeline::on_record(const wire::RecordHeader& header, Bytes body) {
  if (header.seq > last_seq())
    return fail(ErrorCode::kProtocol, "the worker answered a record that was never sent");
  std::uint64_t known = acknowledged_seq_.load(std::memory_order_relaxed);
  while (known < header.seq &&
         !acknowledged_seq_.compare_exchange_weak(known, header.seq, std::memory_order_relaxed)) {
  }
  if ((header.flags & wire::kFlagReply) != 0) {
    SLUICE_CHECK(finish_begun());
    return on_reply(header, body);
  }
  if ((header.flags & wire::kFlagPush) == 0)
    return fail(ErrorCode::kProtocol, "the worker sent a record that is neither reply nor push");
  SLUICE_CHECK(pushes_.on_push(header, body));
  wake_for_pushes();
  return {};
}

Status Pipeline::on_reply(const wire::RecordHeader& header, Bytes body) {
  const Reply* filled = nullptr;
  {
    std::lock_guard lock(replies_mutex_);
    const auto at = replies_.find(header.seq);
    if (at == replies_.end())
      return fail(ErrorCode::kProtocol, "the worker sent a reply that nobody waits for");
    filled = at->second;
    SLUICE_CHECK(fill(*at->second, header, body));
    at->second->is_done.store(true, std::memory_order_release);
    replies_.erase(at);
  }
  std::lock_guard lock(sleepers_mutex_);
  for (Sleeper* sleeper : sleepers_)
    if (sleeper->reply == filled) sleeper->word.wake();
  return {};
}

Status Pipeline::fill(Reply& reply, const wire::RecordHeader& header, Bytes body) {
  reply.result = static_cast<CUresult>(header.result);
  if (body.empty() && reply.result != CUDA_SUCCESS) return {};
  const std::size_t fixed_bytes = reply.shape.fixed.size();
  if (body.size() < fixed_bytes)
    return fail(ErrorCode::kProtocol, "a reply is shorter than its fixed part");
  std::memcpy(reply.shape.fixed.data(), body.data(), fixed_bytes);
  Bytes rest = body.subspan(fixed_bytes);
  auto out = reply.out.begin();
  for (std::uint32_t i = 0; i < reply.shape.blobs; ++i) {
    // A failed call carries only what its handler filled in.
    if (rest.empty() && reply.result != CUDA_SUCCESS) break;
    const std::uint64_t bytes = reply.shape.blob_bytes(reply.shape.fixed.data(), i);
    if (bytes > rest.size() || wire::padded(bytes) > rest.size())
      return fail(ErrorCode::kProtocol, "a variable part of a reply is longer than the reply");
    if (out != reply.out.end()) {
      const std::size_t n = std::min<std::size_t>(bytes, out->bytes.size());
      if (n > 0) std::memcpy(out->bytes.data(), rest.data(), n);
      if (out->actual != nullptr) *out->actual = bytes;
      ++out;
    }
    rest = rest.subspan(wire::padded(bytes));
  }
  if (!rest.empty()) return fail(ErrorCode::kProtocol, "a reply is longer than its parts");
  return {};
}

void Pipeline::note_round_trip(Clock::time_point since) noexcept {
  const std::int64_t took_ns = std::chrono::nanoseconds(Clock::now() - since).count();
  std::int64_t least = round_trip_min_ns_.load(std::memory_order_relaxed);
  while (took_ns < least &&
         !round_trip_min_ns_.compare_exchange_weak(least, took_ns, std::memory_order_relaxed)) {
  }
}

Status Pipeline::still_lives() noexcept {
  check_life_line();
  if (is_lost()) return fail(ErrorCode::kPeerClosed, "the session is over");
  return {};
}

void Pipeline::check_life_line() noexcept {
  if (is_lost()) return;
  if (const auto why = life_line_.watch(Clock::now())) lose(*why);
}

/// Why the worker is gone, its connection does not tell; the server does.
void Pipeline::lose_channel(const Error& why) noexcept {
  constexpr LifeLine::Milliseconds kPatience{200};
  if (is_lost() || stops_ || says_goodbye_) return lose(why);
  lose(life_line_.last_word(kPatience).value_or(why));
}

void Pipeline::lose(const Error& why) noexcept {
  if (is_lost_.exchange(true)) return;
  if (!stops_ && !says_goodbye_)
    SLUICE_LOG_ERROR("session",
                     "The session with the server is lost: {}. Every further CUDA call that needs "
                     "the GPU returns "
                     "CUDA_ERROR_DEVICE_UNAVAILABLE (46); start the program again.",
                     why.message);
  channel_->close();
  life_line_.give_up();
  service_word_.wake();
  std::lock_guard lock(sleepers_mutex_);
  for (Sleeper* sleeper : sleepers_) sleeper->word.wake();
}

}  // namespace sluice::shim
