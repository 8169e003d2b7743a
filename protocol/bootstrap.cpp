// Frame: "SLCE", u32 total length, u16 frame type, u16 zero, then fields {u16 tag, u16 zero, u32 length, bytes}. Unknown tags are skipped.
#include "protocol/bootstrap.h"

#include "common/format.h"

#include <cstring>

namespace sluice::wire {
namespace {

constexpr char kMagic[4] = {'S', 'L', 'C', 'E'};
constexpr std::size_t kHeaderBytes = 12;

enum class FrameType : std::uint16_t { kHello = 1, kWelcome, kRefusal, kAttach, kAttached };

class FieldWriter {
 public:
  explicit FieldWriter(FrameType type) {
    raw(kMagic, 4);
    number<std::uint32_t>(0);
    number(static_cast<std::uint16_t>(type));
    number<std::uint16_t>(0);
  }
  template <class T>
  void number(T value) { raw(&value, sizeof value); }
  void bytes(std::uint16_t tag, const void* data, std::size_t size) {
    number(tag);
    number<std::uint16_t>(0);
    number(static_cast<std::uint32_t>(size));
    raw(data, size);
  }
  void text(std::uint16_t tag, const std::string& value) { bytes(tag, value.data(), value.size()); }
  template <class T>
  void value(std::uint16_t tag, T v) { bytes(tag, &v, sizeof v); }
  std::vector<std::byte> finish() {
    const auto total = static_cast<std::uint32_t>(out_.size());
    std::memcpy(out_.data() + 4, &total, sizeof total);
    return std::move(out_);
  }

 private:
  void raw(const void* data, std::size_t size) {
    const auto* p = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), p, p + size);
  }
  std::vector<std::byte> out_;
};

struct Field {
  std::uint16_t tag = 0;
  std::span<const std::byte> data;

  template <class T>
  void to(T* out) const {
    if (data.size() >= sizeof(T)) std::memcpy(out, data.data(), sizeof(T));
  }
  void to(std::string* out) const { out->assign(reinterpret_cast<const char*>(data.data()), data.size()); }
};

/// Splits a field sequence; Err(kProtocol) if a length reaches beyond the end.
Result<std::vector<Field>> split(std::span<const std::byte> rest) {
  std::vector<Field> fields;
  while (!rest.empty()) {
    if (rest.size() < 8) return fail(ErrorCode::kProtocol, "bootstrap frame: a field is cut off");
    Field field;
    std::uint32_t length = 0;
    std::memcpy(&field.tag, rest.data(), 2);
    std::memcpy(&length, rest.data() + 4, 4);
    rest = rest.subspan(8);
    if (length > rest.size()) return fail(ErrorCode::kProtocol, "bootstrap frame: a field is longer than the frame");
    field.data = rest.first(length);
    rest = rest.subspan(length);
    fields.push_back(field);
  }
  return fields;
}

void encode(FieldWriter& w, const Hello& h) {
  w.value(1, h.protocol_version);
  w.value(2, h.opcode_table_hash);
  w.value(3, h.feature_bits);
  w.text(4, h.tenant);
  w.text(5, h.token);
  w.value(6, h.cuda_version);
  w.value(7, h.pid);
  w.text(8, h.host);
  w.text(9, h.program);
  w.text(10, h.visible_devices);
}

Hello decode_hello(const std::vector<Field>& fields) {
  Hello h;
  for (const Field& f : fields) switch (f.tag) {
      case 1: f.to(&h.protocol_version); break;
      case 2: f.to(&h.opcode_table_hash); break;
      case 3: f.to(&h.feature_bits); break;
      case 4: f.to(&h.tenant); break;
      case 5: f.to(&h.token); break;
      case 6: f.to(&h.cuda_version); break;
      case 7: f.to(&h.pid); break;
      case 8: f.to(&h.host); break;
      case 9: f.to(&h.program); break;
      case 10: f.to(&h.visible_devices); break;
      default: break;
    }
  return h;
}

std::vector<std::byte> device_fields(const DeviceRecord& d) {
  FieldWriter w(FrameType::kWelcome);
  w.text(1, d.name);
  w.bytes(2, d.uuid.data(), d.uuid.size());
  w.text(3, d.pci_bus_id);
  w.value(4, d.total_bytes);
  w.bytes(5, d.attributes.data(), d.attributes.size() * sizeof(d.attributes[0]));
  std::vector<std::byte> out = w.finish();
  out.erase(out.begin(), out.begin() + kHeaderBytes);
  return out;
}

Result<DeviceRecord> decode_device(std::span<const std::byte> bytes) {
  SLUICE_TRY(const std::vector<Field> fields, split(bytes));
  DeviceRecord d;
  for (const Field& f : fields) switch (f.tag) {
      case 1: f.to(&d.name); break;
      case 2: f.to(&d.uuid); break;
      case 3: f.to(&d.pci_bus_id); break;
      case 4: f.to(&d.total_bytes); break;
      case 5:
        for (std::size_t at = 0; at + 8 <= f.data.size(); at += 8) {
          std::int32_t pair[2];
          std::memcpy(pair, f.data.data() + at, 8);
          d.attributes.emplace_back(pair[0], pair[1]);
        }
        break;
      default: break;
    }
  return d;
}

void encode(FieldWriter& w, const Welcome& m) {
  w.value(1, m.protocol_version);
  w.value(2, m.feature_bits);
  w.value(3, m.session_id);
  w.bytes(4, m.session_key.data(), m.session_key.size());
  w.value(5, m.driver_version);
  w.value(6, m.worker_pid);
  w.text(7, m.node);
  for (const DeviceRecord& d : m.devices) {
    const std::vector<std::byte> device = device_fields(d);
    w.bytes(8, device.data(), device.size());
  }
}

Result<Frame> decode_welcome(const std::vector<Field>& fields) {
  Welcome m;
  for (const Field& f : fields) switch (f.tag) {
      case 1: f.to(&m.protocol_version); break;
      case 2: f.to(&m.feature_bits); break;
      case 3: f.to(&m.session_id); break;
      case 4: f.to(&m.session_key); break;
      case 5: f.to(&m.driver_version); break;
      case 6: f.to(&m.worker_pid); break;
      case 7: f.to(&m.node); break;
      case 8: {
        SLUICE_TRY(DeviceRecord device, decode_device(f.data));
        m.devices.push_back(std::move(device));
        break;
      }
      default: break;
    }
  return m;
}

struct Encoder {
  std::vector<std::byte> operator()(const Hello& m) const { return with(FrameType::kHello, m); }
  std::vector<std::byte> operator()(const Welcome& m) const { return with(FrameType::kWelcome, m); }
  std::vector<std::byte> operator()(const Refusal& m) const {
    FieldWriter w(FrameType::kRefusal);
    w.value(1, m.code);
    w.text(2, m.message);
    return w.finish();
  }
  std::vector<std::byte> operator()(const Attach& m) const {
    FieldWriter w(FrameType::kAttach);
    w.bytes(1, m.session_key.data(), m.session_key.size());
    return w.finish();
  }
  std::vector<std::byte> operator()(const Attached&) const { return FieldWriter(FrameType::kAttached).finish(); }

 private:
  template <class M>
  static std::vector<std::byte> with(FrameType type, const M& message) {
    FieldWriter w(type);
    encode(w, message);
    return w.finish();
  }
};

}  // namespace

std::vector<std::byte> encode_frame(const Frame& frame) { return std::visit(Encoder{}, frame); }

Result<std::size_t> frame_bytes(std::span<const std::byte> prefix) {
  if (prefix.size() < kFramePrefixBytes || std::memcmp(prefix.data(), kMagic, 4) != 0)
    return fail(ErrorCode::kProtocol, "this is not a Sluice connection: the magic is wrong");
  std::uint32_t total = 0;
  std::memcpy(&total, prefix.data() + 4, 4);
  if (total < kHeaderBytes || total > kFrameBytesMax)
    return fail(ErrorCode::kProtocol, format("bootstrap frame of {} bytes (allowed: {} to {})", total, kHeaderBytes, kFrameBytesMax));
  return total;
}

Result<Frame> decode_frame(std::span<const std::byte> bytes) {
  SLUICE_TRY(const std::size_t total, frame_bytes(bytes));
  if (total != bytes.size()) return fail(ErrorCode::kProtocol, "bootstrap frame: the length does not match");
  std::uint16_t type = 0;
  std::memcpy(&type, bytes.data() + 8, 2);
  SLUICE_TRY(const std::vector<Field> fields, split(bytes.subspan(kHeaderBytes)));
  switch (static_cast<FrameType>(type)) {
    case FrameType::kHello: return decode_hello(fields);
    case FrameType::kWelcome: return decode_welcome(fields);
    case FrameType::kRefusal: {
      Refusal m;
      for (const Field& f : fields) {
        if (f.tag == 1) f.to(&m.code);
        if (f.tag == 2) f.to(&m.message);
      }
      return m;
    }
    case FrameType::kAttach: {
      Attach m;
      for (const Field& f : fields)
        if (f.tag == 1) f.to(&m.session_key);
      return m;
    }
    case FrameType::kAttached: return Attached{};
  }
  return fail(ErrorCode::kProtocol, format("bootstrap frame of unknown type {}", type));
}

}  // namespace sluice::wire
