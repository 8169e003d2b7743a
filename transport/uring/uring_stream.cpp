#include "transport/uring/uring_stream.h"

#include "common/format.h"
#include "common/log.h"

#include <liburing.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>

namespace sluice::transport::uring {
namespace {

constexpr unsigned kBuffers = 8;  // a power of two
constexpr std::size_t kBufferBytes = 64 * 1024;
constexpr unsigned kSubmissions = 4;
constexpr std::size_t kPageBytes = 4096;

tl::unexpected<Error> refused(const char* doing, int error) {
  return fail(ErrorCode::kSystem, format("io_uring: {}: {}", doing, std::strerror(error)));
}

/// An io_uring with one group of receive buffers.
class Ring {
 public:
  Ring() = default;
  ~Ring() {
    if (is_open_) ::io_uring_queue_exit(&ring_);
    if (memory_ != nullptr) ::munmap(memory_, kMemoryBytes);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  Status open(Receivers receivers) {
    SLUICE_CHECK(open_ring(receivers));
    void* const memory =
        ::mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return refused("memory", errno);
    memory_ = static_cast<std::byte*>(memory);
    buffers_ = reinterpret_cast<io_uring_buf_ring*>(memory_);
    io_uring_buf_reg group{};
    group.ring_addr = reinterpret_cast<std::uintptr_t>(memory_);
    group.ring_entries = kBuffers;
    if (const int error = ::io_uring_register_buf_ring(&ring_, &group, 0); error < 0)
      return refused("registering buffers", -error);
    ::io_uring_buf_ring_init(buffers_);
    for (unsigned i = 0; i < kBuffers; ++i) recycle(i);
    return {};
  }

  /// Asks for bytes until further notice.
  Status arm(int socket) {
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) return refused("a full queue", EBUSY);
    ::io_uring_prep_recv_multishot(entry, socket, nullptr, 0, 0);
    entry->flags |= IOSQE_BUFFER_SELECT;
    entry->buf_group = 0;
    for (;;) {
      const int submitted = ::io_uring_submit(&ring_);
      if (submitted == -EINTR) continue;
      if (submitted < 0) return refused("submitting", -submitted);
      return {};
    }
  }

  struct Completion {
    int result = 0;
    std::uint32_t flags = 0;
  };
  std::optional<Completion> peek() {
    io_uring_cqe* entry = nullptr;
    if (::io_uring_peek_cqe(&ring_, &entry) != 0 || entry == nullptr) return std::nullopt;
    const Completion completion{entry->res, entry->flags};
    ::io_uring_cqe_seen(&ring_, entry);
    return completion;
  }

  /// True: there is a completion.
  Result<bool> wait(Deadline deadline) {
    for (;;) {
      io_uring_cqe* entry = nullptr;
      int error = 0;
      if (deadline == Deadline::max()) {
        error = ::io_uring_wait_cqe(&ring_, &entry);
      } else {
        const auto left_ns = std::chrono::nanoseconds(left_until(deadline)).count();
        __kernel_timespec left{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
        error = ::io_uring_wait_cqe_timeout(&ring_, &entry, &left);
      }
      if (error == 0) return true;
      if (error == -ETIME && Clock::now() >= deadline) return false;
      if (error != -ETIME && error != -EINTR && error != -EAGAIN) return refused("waiting", -error);
    }
  }

  [[nodiscard]] std::byte* buffer(unsigned index) {
    return memory_ + kPageBytes + index * kBufferBytes;
  }
  void recycle(unsigned index) {
    ::io_uring_buf_ring_add(buffers_, buffer(index), kBufferBytes,
                            static_cast<unsigned short>(index), ::io_uring_buf_ring_mask(kBuffers),
                            0);
    ::io_uring_buf_ring_advance(buffers_, 1);
  }
  [[nodiscard]] int fd() const { return ring_.ring_fd; }

 private:
  static constexpr std::size_t kMemoryBytes = kPageBytes + kBuffers * kBufferBytes;
  static_assert(kBuffers * sizeof(io_uring_buf) <= kPageBytes);

  Status open_ring(Receivers receivers) {
    constexpr unsigned kBest =
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    int error = -EINVAL;
    for (const unsigned flags : {receivers == Receivers::kOneThread ? kBest : 0U, 0U}) {
      io_uring_params params{};
      params.flags = flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
      params.cq_entries = 4 * kBuffers;
      error = ::io_uring_queue_init_params(kSubmissions, &ring_, &params);
      if (error != -EINVAL) break;  // an older kernel does not know the flags
    }
    if (error < 0) return refused("not available", -error);
    is_open_ = true;
    return {};
  }

  io_uring ring_{};
  bool is_open_ = false;
  std::byte* memory_ = nullptr;
  io_uring_buf_ring* buffers_ = nullptr;
};

class UringStream final : public ByteStream {
 public:
  UringStream() = default;
  // The end is said in order before the ring, which holds the socket too, lets go of it.
  ~UringStream() override {
    if (socket_ != nullptr) socket_->close();
  }

  /// Err: `socket` is untouched.
  Status open(Fd&& socket, Receivers receivers) {
    SLUICE_CHECK(ring_.open(receivers));
    socket_fd_ = socket.get();
    SLUICE_CHECK(ring_.arm(socket_fd_));
    // A request that the kernel does not know or does not allow is refused at once.
    is_armed_ = true;
    take_completions();
    if (is_refusal_ && end_) return fail(*end_);
    socket_ = make_socket_stream(std::move(socket));
    return {};
  }

  Result<std::size_t> send_some(std::span<const std::byte> bytes) override {
    return socket_->send_some(bytes);
  }

  Result<std::size_t> receive_some(std::span<std::byte> into) override {
    std::size_t total = 0;
    while (total < into.size()) {
      if (!has_unread()) take_completions();
      if (!has_unread()) break;
      Filled& front = filled_[first_ % kBuffers];
      const std::size_t bytes = std::min(front.bytes - front.taken, into.size() - total);
      std::memcpy(into.data() + total, ring_.buffer(front.index) + front.taken, bytes);
      front.taken += bytes;
      total += bytes;
      if (front.taken < front.bytes) continue;
      ring_.recycle(front.index);
      ++first_;
    }
    SLUICE_CHECK(rearm());
    if (total == 0 && end_ && !has_unread()) return fail(*end_);
    return total;
  }

  Result<bool> wait(For what, Deadline deadline) override {
    if (what == For::kSend) return socket_->wait(what, deadline);
    for (;;) {
      take_completions();
      if (has_unread() || end_) return true;
      SLUICE_CHECK(rearm());
      SLUICE_TRY(const bool is_ready, ring_.wait(deadline));
      if (!is_ready) return false;
    }
  }

  [[nodiscard]] int fd() const override { return ring_.fd(); }
  [[nodiscard]] Kind kind() const override { return socket_->kind(); }
  void close() noexcept override { socket_->close(); }  // completes what is armed
  void abandon_in_child() noexcept override { socket_->abandon_in_child(); }

 private:
  struct Filled {
    unsigned index = 0;
    std::size_t bytes = 0, taken = 0;
  };
  [[nodiscard]] bool has_unread() const { return first_ != last_; }

  /// The request ends when there was no buffer, when its thread ended, or as the kernel likes.
  Status rearm() {
    if (is_armed_ || end_ || last_ - first_ == kBuffers) return {};
    SLUICE_CHECK(ring_.arm(socket_fd_));
    is_armed_ = true;
    return {};
  }

  void take_completions() {
    while (const auto completion = ring_.peek()) {
      if ((completion->flags & IORING_CQE_F_MORE) == 0) is_armed_ = false;
      if (completion->result > 0) {
        filled_[last_++ % kBuffers] = {completion->flags >> IORING_CQE_BUFFER_SHIFT,
                                       static_cast<std::size_t>(completion->result), 0};
      } else if (completion->result == 0) {
        end_ = Error{ErrorCode::kPeerClosed, "the peer closed the connection"};
      } else if (completion->result != -ENOBUFS && completion->result != -ECANCELED &&
                 completion->result != -EINTR && completion->result != -EAGAIN) {
        const int error = -completion->result;
        is_refusal_ = error == EINVAL || error == EPERM || error == EACCES || error == EOPNOTSUPP ||
                      error == ENOSYS;
        end_ = Error{is_refusal_ ? ErrorCode::kSystem : ErrorCode::kPeerClosed,
                     std::string("the connection broke: ") + std::strerror(error)};
      }
    }
  }

  Ring ring_;
  int socket_fd_ = -1;
  std::unique_ptr<ByteStream> socket_;
  bool is_armed_ = false;
  bool is_refusal_ = false;
  Filled filled_[kBuffers] = {};
  std::size_t first_ = 0, last_ = 0;
  std::optional<Error> end_;
};

}  // namespace

Result<std::unique_ptr<ByteStream>> make_uring_stream(Fd&& socket, Receivers receivers) {
  auto made = std::make_unique<UringStream>();
  SLUICE_CHECK(made->open(std::move(socket), receivers));
  return made;
}

std::unique_ptr<ByteStream> make_uring_or_socket_stream(Fd socket, Receivers receivers) {
  auto made = make_uring_stream(std::move(socket), receivers);
  if (made) return std::move(*made);
  SLUICE_LOG_WARN("session", "io_uring is not to be had, the socket is used without it: {}",
                  made.error().message);
  // NOLINTNEXTLINE(bugprone-use-after-move): an error has left it alone
  return make_socket_stream(std::move(socket));
}

}  // namespace sluice::transport::uring
