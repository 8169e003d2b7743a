// Frame: "SLCE", u32 total length, u16 frame type, u16 zero, then fields {u16 tag, u16 zero, u32
// length, bytes}; numbers are little-endian. A receiver skips unknown tags and leaves absent fields
// at their defaults. Each message lists its fields once, for both directions; a tag is never reused
// for something else.
#include "protocol/bootstrap.h"

#include "common/format.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace sluice::wire {
namespace {

constexpr char kMagic[4] = {'S', 'L', 'C', 'E'};
constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kFieldHeaderBytes = 8;

enum class FrameType : std::uint16_t {
  kHello = 1,
  kWelcome,
  kRefusal,
  kAttach,
  kAttached,
  kPing,
  kPong,
  kEnding,
  kSharedMemory,
  kSharedMemoryAnswer,
  kResume,
  kResumed,
  kUcxOffer,
  kUcxResult,
  kSliceQuery,
  kSliceStatus
};

using Attributes = std::vector<std::pair<std::int32_t, std::int32_t>>;
constexpr std::size_t kAttributeBytes = 8;

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, Hello> {
  field(1, m.protocol_version);
  field(2, m.opcode_table_hash);
  field(3, m.feature_bits);
  field(4, m.tenant);
  field(5, m.token);
  field(6, m.cuda_version);
  field(7, m.pid);
  field(8, m.host);
  field(9, m.program);
  field(10, m.visible_devices);
  field(11, m.limits);
}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, DeviceRecord> {
  field(1, m.name);
  field(2, m.uuid);
  field(3, m.pci_bus_id);
  field(4, m.total_bytes);
  field(5, m.attributes);
}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, Welcome> {
  field(1, m.protocol_version);
  field(2, m.feature_bits);
  field(3, m.session_id);
  field(4, m.session_key);
  field(5, m.driver_version);
  field(6, m.worker_pid);
  field(7, m.node);
  field(8, m.devices);  // one field per device
  field(9, m.heartbeat_ms);
  field(10, m.heartbeat_timeout_ms);
  field(64, m.server_instance);
  field(65, m.grace_ms);
  field(66, m.resumes_on_reset);
  field(80, m.release);
  field(81, m.wall_clock_us);
}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, Refusal> {
  field(1, m.code);
  field(2, m.message);
}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, Attach> {
  field(1, m.session_key);
  field(2, m.offers_shared_memory);
  field(32, m.is_encrypted);
  field(33, m.session_id);
  field(64, m.is_resumable);
  field(16, m.wants_ucx);
  field(3, m.lane);
  field(4, m.lane_count);
}

template <class Visitor, class T>
void fields_of(Visitor&, T&) requires std::is_same_v<std::remove_const_t<T>, Attached> {}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, Ping> {
  field(1, m.number);
}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, Pong> {
  field(1, m.number);
  field(2, m.worker_silent_ms);
}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, Ending> {
  field(1, m.code);
  field(2, m.message);
  field(3, m.in_ms);
}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, SharedMemory> {
  field(1, m.layout_version);
}

template <class Visitor, class T>
void fields_of(Visitor& field,
               T& m) requires std::is_same_v<std::remove_const_t<T>, SharedMemoryAnswer> {
  field(1, m.is_accepted);
  field(2, m.message);
}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, Resume> {
  field(1, m.session_id);
  field(2, m.session_key);
  field(3, m.server_instance);
  field(4, m.line);
  field(5, m.attempt);
  field(6, m.lane);
  field(32, m.is_encrypted);
}

template <class Visitor, class T>
void fields_of(Visitor&, T&) requires std::is_same_v<std::remove_const_t<T>, Resumed> {}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, UcxOffer> {
  field(1, m.is_accepted);
  field(2, m.message);
  field(3, m.host);
  field(4, m.port);
  field(5, m.token);
  field(6, m.staging_address);
  field(7, m.staging_bytes);
  field(8, m.staging_key);
}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, UcxResult> {
  field(1, m.is_connected);
  field(2, m.message);
  field(3, m.uses_staging);
}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, SliceQuery> {
  field(1, m.wants_identity);
}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, SliceDevice> {
  field(1, m.name);
  field(2, m.uuid);
  field(3, m.pci_bus_id);
  field(4, m.total_bytes);
  field(5, m.used_bytes);
  field(6, m.busy_us);
  field(7, m.recent_busy_us);
  field(8, m.attributes);
}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, SliceSession> {
  field(1, m.session_id);
  field(2, m.pid);
  field(3, m.host);
  field(4, m.program);
  field(5, m.age_ms);
  field(6, m.recent_us);
  field(7, m.uses);
}

template <class Visitor, class T>
void fields_of(Visitor& field, T& m) requires std::is_same_v<std::remove_const_t<T>, SliceStatus> {
  field(1, m.driver_version);
  field(2, m.node);
  field(3, m.tenant);
  field(4, m.problem);
  field(5, m.guarantee_ppm);
  field(6, m.limit_ppm);
  field(7, m.weight_milli);
  field(8, m.share_class);
  field(9, m.recent_us);
  field(10, m.wall_clock_us);
  field(11, m.sessions_left_out);
  field(12, m.devices);   // one field per device
  field(13, m.sessions);  // one field per session
  field(14, m.driver_release);
}

/// How many records of a kind one message may have.
template <class Record>
constexpr std::size_t kRecordCountMax = kDeviceCountMax;
template <>
constexpr std::size_t kRecordCountMax<SliceSession> = kSliceSessionCountMax;

// ---- encoding

class Encoder {
 public:
  explicit Encoder(std::vector<std::byte>& out) : out_(out) {}

  template <class T>
  void operator()(std::uint16_t tag, const T& value) requires std::is_trivially_copyable_v<T> {
    bytes(tag, &value, sizeof value);
  }
  void operator()(std::uint16_t tag, const std::string& text) {
    bytes(tag, text.data(), text.size());
  }
  void operator()(std::uint16_t tag, const Attributes& attributes) {
    std::vector<std::int32_t> flat;
    flat.reserve(attributes.size() * 2);
    for (const auto& [attribute, value] : attributes) flat.insert(flat.end(), {attribute, value});
    bytes(tag, flat.data(), flat.size() * sizeof flat[0]);
  }
  void operator()(std::uint16_t tag, const std::vector<SliceUse>& uses) {
    bytes(tag, uses.data(), uses.size() * sizeof uses[0]);
  }
  template <class Record>
  void operator()(std::uint16_t tag, const std::vector<Record>& records) {
    for (const Record& record : records) {
      std::vector<std::byte> inner;
      Encoder encoder(inner);
      fields_of(encoder, record);
      bytes(tag, inner.data(), inner.size());
    }
  }

  template <class T>
  void number(T value) {
    raw(&value, sizeof value);
  }
  void raw(const void* data, std::size_t size) {
    if (size == 0) return;
    const auto* p = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), p, p + size);
  }

 private:
  void bytes(std::uint16_t tag, const void* data, std::size_t size) {
    number(tag);
    number(std::uint16_t{0});
    number(static_cast<std::uint32_t>(size));
    raw(data, size);
  }

  std::vector<std::byte>& out_;
};

// ---- decoding

template <class Message>
Status decode_fields(std::span<const std::byte> rest, Message* message);

/// One received field; offered every field of the message, it fills the one with its tag.
class Decoder {
 public:
  Decoder(std::uint16_t tag, std::span<const std::byte> data) : tag_(tag), data_(data) {}

  template <class T>
  void operator()(std::uint16_t tag, T& value) requires std::is_trivially_copyable_v<T> {
    if (tag != tag_) return;
    if (data_.size() != sizeof value) return refuse("has the wrong length");
    std::memcpy(&value, data_.data(), sizeof value);
  }
  void operator()(std::uint16_t tag, std::string& text) {
    if (tag == tag_) text.assign(reinterpret_cast<const char*>(data_.data()), data_.size());
  }
  void operator()(std::uint16_t tag, Attributes& attributes) {
    if (tag != tag_) return;
    const std::size_t count = data_.size() / kAttributeBytes;
    if (data_.size() % kAttributeBytes != 0) return refuse("has the wrong length");
    if (count > kAttributeCountMax) return refuse("has too many entries");
    attributes.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&attributes[i].first, data_.data() + i * kAttributeBytes, 4);
      std::memcpy(&attributes[i].second, data_.data() + i * kAttributeBytes + 4, 4);
    }
  }
  void operator()(std::uint16_t tag, std::vector<SliceUse>& uses) {
    if (tag != tag_) return;
    if (data_.size() % sizeof(SliceUse) != 0) return refuse("has the wrong length");
    if (data_.size() / sizeof(SliceUse) > kDeviceCountMax) return refuse("has too many entries");
    uses.resize(data_.size() / sizeof(SliceUse));
    if (!uses.empty()) std::memcpy(uses.data(), data_.data(), data_.size());
  }
  template <class Record>
  void operator()(std::uint16_t tag, std::vector<Record>& records) {
    if (tag != tag_) return;
    if (records.size() == kRecordCountMax<Record>) return refuse("has too many entries");
    status_ = decode_fields(data_, &records.emplace_back());
  }

  [[nodiscard]] const Status& status() const { return status_; }

 private:
  void refuse(const char* why) {
    status_ = fail(ErrorCode::kProtocol, format("bootstrap frame: field {} {}", tag_, why));
  }

  std::uint16_t tag_;
  std::span<const std::byte> data_;
  Status status_;
};

template <class Message>
Status decode_fields(std::span<const std::byte> rest, Message* message) {
  while (!rest.empty()) {
    if (rest.size() < kFieldHeaderBytes)
      return fail(ErrorCode::kProtocol, "bootstrap frame: a field is cut off");
    std::uint16_t tag = 0;
    std::uint32_t length = 0;
    std::memcpy(&tag, rest.data(), sizeof tag);
    std::memcpy(&length, rest.data() + 4, sizeof length);
    rest = rest.subspan(kFieldHeaderBytes);
    if (length > rest.size())
      return fail(ErrorCode::kProtocol, "bootstrap frame: a field is longer than the frame");
    Decoder decoder(tag, rest.first(length));
    fields_of(decoder, *message);
    SLUICE_CHECK(decoder.status());
    rest = rest.subspan(length);
  }
  return {};
}

template <class Message>
Result<Frame> decode_message(std::span<const std::byte> fields) {
  Message message;
  SLUICE_CHECK(decode_fields(fields, &message));
  return message;
}

Result<Frame> decode_refusal(std::span<const std::byte> fields) {
  Refusal refusal;
  SLUICE_CHECK(decode_fields(fields, &refusal));
  // A newer server may know more reasons; its message still says everything.
  if (refusal.code < RefusalCode::kVersion || refusal.code > RefusalCode::kUnknownSession)
    refusal.code = RefusalCode::kServer;
  return refusal;
}

Result<Frame> decode_ending(std::span<const std::byte> fields) {
  Ending ending;
  SLUICE_CHECK(decode_fields(fields, &ending));
  if (ending.code < EndingCode::kServer || ending.code > EndingCode::kWorker)
    ending.code = EndingCode::kServer;
  return ending;
}

/// An absent key must not read as a key of zeros.
Result<Frame> require_key(Result<Frame> frame, const SessionKey& key) {
  if (std::any_of(key.begin(), key.end(), [](std::uint8_t byte) { return byte != 0; }))
    return frame;
  return fail(ErrorCode::kProtocol, "bootstrap frame: the session key is missing");
}

FrameType type_of(const Frame& frame) {
  static_assert(std::is_same_v<std::variant_alternative_t<0, Frame>, Hello> &&
                std::is_same_v<std::variant_alternative_t<4, Frame>, Attached> &&
                std::is_same_v<std::variant_alternative_t<7, Frame>, Ending> &&
                std::is_same_v<std::variant_alternative_t<9, Frame>, SharedMemoryAnswer> &&
                std::is_same_v<std::variant_alternative_t<11, Frame>, Resumed> &&
                std::is_same_v<std::variant_alternative_t<13, Frame>, UcxResult> &&
                std::is_same_v<std::variant_alternative_t<15, Frame>, SliceStatus> &&
                std::variant_size_v<Frame> == 16);
  return static_cast<FrameType>(frame.index() + 1);
}

}  // namespace

std::vector<std::byte> encode_frame(const Frame& frame) {
  std::vector<std::byte> out;
  Encoder encoder(out);
  encoder.raw(kMagic, sizeof kMagic);
  encoder.number(std::uint32_t{0});
  encoder.number(type_of(frame));
  encoder.number(std::uint16_t{0});
  std::visit([&](const auto& message) { fields_of(encoder, message); }, frame);
  const auto total = static_cast<std::uint32_t>(out.size());
  std::memcpy(out.data() + sizeof kMagic, &total, sizeof total);
  return out;
}

Result<std::size_t> frame_bytes(std::span<const std::byte> prefix) {
  if (prefix.size() < kFramePrefixBytes || std::memcmp(prefix.data(), kMagic, sizeof kMagic) != 0)
    return fail(ErrorCode::kProtocol, "this is not a Sluice connection: the magic is wrong");
  std::uint32_t total = 0;
  std::memcpy(&total, prefix.data() + sizeof kMagic, sizeof total);
  if (total < kHeaderBytes || total > kFrameBytesMax)
    return fail(ErrorCode::kProtocol, format("bootstrap frame of {} bytes (allowed: {} to {})",
                                             total, kHeaderBytes, kFrameBytesMax));
  return total;
}

Result<Frame> decode_frame(std::span<const std::byte> bytes) {
  SLUICE_TRY(const std::size_t total, frame_bytes(bytes));
  if (total != bytes.size())
    return fail(ErrorCode::kProtocol, "bootstrap frame: the length does not match");
  std::uint16_t type = 0;
  std::memcpy(&type, bytes.data() + kFramePrefixBytes, sizeof type);
  const std::span<const std::byte> fields = bytes.subspan(kHeaderBytes);
  switch (static_cast<FrameType>(type)) {
    case FrameType::kHello:
      return decode_message<Hello>(fields);
    case FrameType::kWelcome:
      return decode_message<Welcome>(fields);
    case FrameType::kRefusal:
      return decode_refusal(fields);
    case FrameType::kAttach: {
      SLUICE_TRY(Frame frame, decode_message<Attach>(fields));
      const Attach& attach = std::get<Attach>(frame);
      if (attach.is_encrypted != 0 && attach.session_id != 0) return frame;
      return require_key(frame, attach.session_key);
    }
    case FrameType::kAttached:
      return decode_message<Attached>(fields);
    case FrameType::kPing:
      return decode_message<Ping>(fields);
    case FrameType::kPong:
      return decode_message<Pong>(fields);
    case FrameType::kEnding:
      return decode_ending(fields);
    case FrameType::kSharedMemory:
      return decode_message<SharedMemory>(fields);
    case FrameType::kSharedMemoryAnswer:
      return decode_message<SharedMemoryAnswer>(fields);
    case FrameType::kResume: {
      SLUICE_TRY(Frame frame, decode_message<Resume>(fields));
      const Resume& resume = std::get<Resume>(frame);
      if (resume.is_encrypted != 0 && resume.session_id != 0) return frame;
      return require_key(frame, resume.session_key);
    }
    case FrameType::kResumed:
      return decode_message<Resumed>(fields);
    case FrameType::kUcxOffer:
      return decode_message<UcxOffer>(fields);
    case FrameType::kUcxResult:
      return decode_message<UcxResult>(fields);
    case FrameType::kSliceQuery:
      return decode_message<SliceQuery>(fields);
    case FrameType::kSliceStatus:
      return decode_message<SliceStatus>(fields);
  }
  return fail(ErrorCode::kProtocol, format("bootstrap frame of unknown type {}", type));
}

}  // namespace sluice::wire
