// Packets of the link: u32 type (the index in Message), then the fields in order; numbers are
// little-endian, texts and lists are preceded by their u32 length. Each message lists its fields
// once, for both directions. Broker and worker come from one build, so nothing is versioned; but
// the broker does not trust a worker, so everything is checked.
#include "server/link.h"

#include "common/fd_passing.h"
#include "common/format.h"

#include <cerrno>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

namespace sluice::server::link {
namespace {

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  template <class T>
  requires std::is_arithmetic_v<T>
  void number(const T& value) { append(&value, sizeof value); }
  void flag(const bool& value) { number(static_cast<std::uint8_t>(value)); }
  void kind(const MemoryKind& value) { number(static_cast<std::uint8_t>(value)); }
  void text(const std::string& value) {
    number(static_cast<std::uint32_t>(value.size()));
    append(value.data(), value.size());
  }
  template <std::size_t N>
  void bytes(const std::array<std::uint8_t, N>& value) {
    append(value.data(), N);
  }
  template <class T, class Each>
  void list(std::vector<T>& values, std::size_t, Each each) {
    number(static_cast<std::uint32_t>(values.size()));
    for (T& value : values) each(value);
  }

 private:
  void append(const void* data, std::size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), from, from + size);
  }
  std::vector<std::byte>& out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  [[nodiscard]] bool is_complete() const { return is_ok_ && in_.empty(); }
  [[nodiscard]] bool is_ok() const { return is_ok_; }

  template <class T>
  requires std::is_arithmetic_v<T>
  void number(T& value) { take(&value, sizeof value); }
  void flag(bool& value) {
    std::uint8_t byte = 0;
    number(byte);
    value = byte != 0;
  }
  void kind(MemoryKind& value) {
    std::uint8_t byte = 0;
    number(byte);
    if (byte >= kMemoryKindCount) return void(is_ok_ = false);
    value = static_cast<MemoryKind>(byte);
  }
  void text(std::string& value) {
    std::uint32_t size = 0;
    number(size);
    if (!is_ok_ || size > in_.size()) return void(is_ok_ = false);
    value.resize(size);
    take(value.data(), size);
  }
  template <std::size_t N>
  void bytes(std::array<std::uint8_t, N>& value) {
    take(value.data(), N);
  }
  template <class T, class Each>
  void list(std::vector<T>& values, std::size_t count_max, Each each) {
    std::uint32_t count = 0;
    number(count);
    if (!is_ok_ || count > count_max) return void(is_ok_ = false);
    for (std::uint32_t i = 0; i < count && is_ok_; ++i) each(values.emplace_back());
  }

 private:
  void take(void* to, std::size_t size) {
    if (!is_ok_ || size > in_.size()) return void(is_ok_ = false);
    if (size != 0) std::memcpy(to, in_.data(), size);
    in_ = in_.subspan(size);
  }
  std::span<const std::byte> in_;
  bool is_ok_ = true;
};

template <class Io>
void fields(Io& io, wire::DeviceRecord& m) {
  io.text(m.name);
  io.bytes(m.uuid);
  io.text(m.pci_bus_id);
  io.number(m.total_bytes);
  io.list(m.attributes, wire::kAttributeCountMax, [&io](auto& attribute) {
    io.number(attribute.first);
    io.number(attribute.second);
  });
}
template <class Io>
void fields(Io& io, Start& m) {
  io.text(m.driver_path);
  io.number(m.session_id);
  io.text(m.tenant);
  io.list(m.memory_limit_bytes, wire::kDeviceCountMax, [&io](auto& limit) { io.number(limit); });
  io.bytes(m.session_key);
  io.flag(m.uses_io_uring);
}
template <class Io>
void fields(Io& io, AttachData& m) {
  io.flag(m.offers_shared_memory);
  io.flag(m.is_encrypted);
  io.flag(m.is_resumable);
  io.flag(m.survives_reset);
  io.flag(m.wants_ucx);
  io.number(m.lane);
  io.number(m.lane_count);
}
template <class Io>
void fields(Io& io, Answer& m) {
  io.flag(m.is_granted);
  io.number(m.used_bytes);
  io.number(m.limit_bytes);
}
template <class Io>
void fields(Io& io, Ready& m) {
  io.number(m.driver_version);
  io.list(m.devices, wire::kDeviceCountMax, [&io](auto& device) { fields(io, device); });
  io.flag(m.measures_itself);
}
template <class Io>
void fields(Io& io, Failed& m) {
  io.text(m.message);
}
template <class Io>
void fields(Io& io, Charge& m) {
  io.number(m.device);
  io.number(m.bytes);
  io.kind(m.kind);
}
template <class Io>
void fields(Io& io, Refund& m) {
  io.number(m.device);
  io.number(m.bytes);
  io.kind(m.kind);
}
template <class Io>
void fields(Io& io, Measured& m) {
  io.number(m.device);
  io.number(m.bytes);
  io.kind(m.kind);
}
template <class Io>
void fields(Io& io, QueryMemory& m) {
  io.number(m.device);
}
template <class Io>
void fields(Io& io, Stats& m) {
  for (auto* value : {&m.calls, &m.waits, &m.bytes_in, &m.bytes_out, &m.gpu_us,
                      &m.memory_peak_bytes, &m.pending_calls})
    io.number(*value);
}
template <class Io>
void fields(Io&, Stop&) {}
template <class Io>
void fields(Io&, Recall&) {}
template <class Io>
void fields(Io&, RecallDone&) {}
template <class Io>
void fields(Io& io, Spare& m) {
  io.number(m.device);
  io.number(m.bytes);
}
template <class Io>
void fields(Io& io, DataReady& m) {
  io.flag(m.is_resumable);
}
template <class Io>
void fields(Io& io, ResumeData& m) {
  io.flag(m.is_encrypted);
  io.number(m.lane);
}
template <class Io>
void fields(Io&, ResumeTaken&) {}
template <class Io>
void fields(Io& io, TurnPart& m) {
  auto part = static_cast<std::uint8_t>(m.part);
  io.number(part);
  m.part = static_cast<TurnPart::Part>(part);
}

template <std::size_t I = 0>
Result<Message> decode(std::uint32_t type, Reader& reader) {
  if constexpr (I < std::variant_size_v<Message>) {
    if (type != I) return decode<I + 1>(type, reader);
    std::variant_alternative_t<I, Message> message;
    fields(reader, message);
    if (!reader.is_complete())
      return fail(ErrorCode::kProtocol, format("damaged link message of type {}", type));
    return Message(std::move(message));
  } else {
    return fail(ErrorCode::kProtocol, format("unknown link message type {}", type));
  }
}

}  // namespace

Status send_message(int fd, const Message& message, int passed_fd) {
  std::vector<std::byte> bytes;
  Writer writer(bytes);
  writer.number(static_cast<std::uint32_t>(message.index()));
  Message copy = message;  // the field lists serve both directions, so they take mutable references
  std::visit([&writer](auto& m) { fields(writer, m); }, copy);
  if (bytes.size() > kMessageBytesMax)
    return fail(ErrorCode::kInvalidArgument, format("link message of {} bytes (allowed: up to {})",
                                                    bytes.size(), kMessageBytesMax));
  ssize_t sent = 0;
  do {
    sent = send_with_fd(fd, bytes, passed_fd, 0);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {};
  if (errno == EPIPE || errno == ECONNRESET)
    return fail(ErrorCode::kPeerClosed, "the other end of the link is gone");
  if (errno == EAGAIN)
    return fail(ErrorCode::kTimeout, "the other end of the link does not read its messages");
  return fail(system_error("sending on the link", errno));
}

Result<Received> receive_message(int fd) {
  std::vector<std::byte> bytes(kMessageBytesMax);
  ReceivedBytes received;
  do {
    received = receive_with_fd(fd, bytes, 0);
  } while (received.bytes < 0 && errno == EINTR);
  const ssize_t got = received.bytes;
  if (got < 0 && errno == EAGAIN) return fail(ErrorCode::kTimeout, "no message is waiting");
  if (got == 0 || (got < 0 && errno == ECONNRESET))
    return fail(ErrorCode::kPeerClosed, "the other end of the link is gone");
  if (got < 0) return fail(system_error("receiving on the link", errno));
  if (received.is_truncated)
    return fail(ErrorCode::kProtocol,
                format("link message of more than {} bytes", kMessageBytesMax));
  const std::span<const std::byte> whole(bytes);
  Reader reader(whole.first(static_cast<std::size_t>(got)));
  std::uint32_t type = 0;
  reader.number(type);
  if (!reader.is_ok()) return fail(ErrorCode::kProtocol, "damaged link message: no type");
  SLUICE_TRY(Message message, decode(type, reader));
  return Received{std::move(message), std::move(received.passed)};
}

}  // namespace sluice::server::link
