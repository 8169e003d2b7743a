#include "protocol/bootstrap.h"

#include <gtest/gtest.h>

#include <cstring>

namespace sluice::wire {
namespace {

SessionKey key() {
  SessionKey out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint8_t>(i * 7 + 1);
  return out;
}

Hello hello() {
  return {.protocol_version = 9,
          .opcode_table_hash = 0x123456789abcdef0,
          .feature_bits = 5,
          .tenant = "alice",
          .token = std::string("s\0cret", 6),
          .cuda_version = 13000,
          .pid = 4711,
          .host = "laptop",
          .program = "/bin/train",
          .visible_devices = "1,0",
          .limits = "SLUICE_MEM_LIMIT=1G\n"};
}

Welcome welcome() {
  Welcome m{.protocol_version = 1,
            .feature_bits = 3,
            .session_id = 99,
            .session_key = key(),
            .driver_version = 13000,
            .worker_pid = 12,
            .node = "gpu7",
            .devices = {},
            .heartbeat_ms = 1000,
            .heartbeat_timeout_ms = 5000,
            .server_instance = 1ull << 60,
            .grace_ms = 30'000,
            .resumes_on_reset = 1,
            .release = "1.2.3",
            .wall_clock_us = 1ull << 51};
  for (int i = 0; i < 3; ++i) {
    DeviceRecord device;
    device.name = "device " + std::to_string(i);
    device.uuid[3] = static_cast<std::uint8_t>(i);
    device.pci_bus_id = "0000:0" + std::to_string(i) + ":00.0";
    device.total_bytes = 8ULL << 30;
    for (std::int32_t a = 1; a < 140; ++a) device.attributes.emplace_back(a, -a * i);
    m.devices.push_back(device);
  }
  return m;
}

SliceStatus slice_status() {
  SliceStatus m{.driver_version = 13000,
                .driver_release = "580.65.06",
                .node = "gpu7",
                .tenant = "alice",
                .problem = "none",
                .guarantee_ppm = 300'000,
                .limit_ppm = 1'000'000,
                .weight_milli = 2500,
                .share_class = "interactive",
                .recent_us = 1'200'000,
                .wall_clock_us = 1ull << 51,
                .sessions_left_out = 3,
                .devices = {},
                .sessions = {}};
  for (std::uint32_t i = 0; i < 2; ++i) {
    SliceDevice& device = m.devices.emplace_back();
    device.name = "device " + std::to_string(i);
    device.uuid[5] = static_cast<std::uint8_t>(i + 1);
    device.pci_bus_id = "0000:01:00.0";
    device.total_bytes = 8ULL << 30;
    device.used_bytes = i << 20;
    device.busy_us = 1ull << 41;
    device.recent_busy_us = 70'000;
    device.attributes = {{1, 1024}, {75, 12}};
    SliceSession& session = m.sessions.emplace_back();
    session.session_id = 40 + i;
    session.pid = 4711;
    session.host = "laptop";
    session.program = "/bin/train";
    session.age_ms = 12;
    session.recent_us = 9;
    session.uses = {{0, 0, 1 << 20, 1 << 19, 5, 4}, {1, 0, 0, 0, 0, 0}};
  }
  return m;
}

std::vector<Frame> examples() {
  return {hello(),
          welcome(),
          Refusal{RefusalCode::kWrongToken, "the token of tenant alice is wrong"},
          Attach{key()},
          Attach{key(), 1},
          Attach{.is_encrypted = 1, .session_id = 4711},
          Attach{.session_key = key(), .is_resumable = 1},
          Resume{7, key(), 1ull << 50, Resume::Line::kData, 12},
          Resume{7, key(), 1ull << 50, Resume::Line::kData, 13, 4},
          Resume{.session_id = 7, .attempt = 12, .lane = 2, .is_encrypted = 1},
          Resumed{},
          Refusal{RefusalCode::kUnknownSession, "the server was restarted"},
          Attach{.session_key = key(), .wants_ucx = 1},
          Attach{.session_key = key(), .lane_count = 4},
          Attach{.session_key = key(), .lane = 3, .lane_count = 4},
          Attached{},
          Ping{1ull << 40},
          Pong{1ull << 41, 250},
          Ending{EndingCode::kIdle, "no CUDA call for 10 minutes", 3000},
          SharedMemory{3},
          SharedMemoryAnswer{1, ""},
          SharedMemoryAnswer{0, "no memory"},
          UcxOffer{1, "", "10.9.0.1", 7628, {1, 2, 3}, 0, 0, ""},
          UcxOffer{1, "", "10.9.0.1", 7628, {1, 2, 3}, 1ull << 46, 8 << 20, {"k\0y", 3}},
          UcxOffer{0, "no device", "", 0, {}, 0, 0, ""},
          UcxResult{1, "", 1},
          UcxResult{0, "no answer", 0},
          SliceQuery{1},
          slice_status(),
          SliceStatus{},
          Hello{},
          Welcome{},
          Refusal{}};
}

/// A frame of `type` with one field.
std::vector<std::byte> frame_with(std::uint16_t type, std::uint16_t tag,
                                  std::span<const std::byte> data) {
  std::vector<std::byte> out(20 + data.size());
  const auto total = static_cast<std::uint32_t>(out.size());
  const auto length = static_cast<std::uint32_t>(data.size());
  std::memcpy(out.data(), "SLCE", 4);
  std::memcpy(out.data() + 4, &total, 4);
  std::memcpy(out.data() + 8, &type, 2);
  std::memcpy(out.data() + 12, &tag, 2);
  std::memcpy(out.data() + 16, &length, 4);
  if (!data.empty()) std::memcpy(out.data() + 20, data.data(), data.size());
  return out;
}

ErrorCode error_of(const Result<Frame>& frame) {
  return frame ? ErrorCode::kInternal : frame.error().code;
}

TEST(Bootstrap, DecodesWhatItEncoded) {
  // Broken: shim and broker do not understand each other.
  for (const Frame& frame : examples()) {
    const std::vector<std::byte> bytes = encode_frame(frame);
    const Result<Frame> decoded = decode_frame(bytes);
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(*decoded, frame);
    EXPECT_EQ(frame_bytes(bytes).value_or(0), bytes.size());
  }
}

TEST(Bootstrap, RefusesEveryTruncation) {
  // Broken: a cut connection is taken for a short but valid message.
  for (const Frame& frame : examples()) {
    const std::vector<std::byte> bytes = encode_frame(frame);
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      const std::vector<std::byte> cut(bytes.begin(),
                                       bytes.begin() + static_cast<std::ptrdiff_t>(n));
      EXPECT_EQ(error_of(decode_frame(cut)), ErrorCode::kProtocol) << n;
    }
  }
}

TEST(Bootstrap, SurvivesTruncationWithAMatchingLength) {
  // Broken: a hostile client crashes the broker.
  for (const Frame& frame : examples()) {
    const std::vector<std::byte> bytes = encode_frame(frame);
    for (std::size_t n = 12; n < bytes.size(); ++n) {
      std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
      const auto total = static_cast<std::uint32_t>(n);
      std::memcpy(cut.data() + 4, &total, sizeof total);
      const Result<Frame> decoded = decode_frame(cut);
      // A frame that ends between two fields is a shorter frame; anything else is malformed.
      EXPECT_TRUE(decoded || decoded.error().code == ErrorCode::kProtocol) << n;
    }
  }
}

TEST(Bootstrap, SurvivesEveryCorruptedByte) {
  // Broken: a hostile client crashes the broker.
  for (const Frame& frame : examples()) {
    const std::vector<std::byte> bytes = encode_frame(frame);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      for (const unsigned flip : {0x01U, 0x80U, 0xffU}) {
        std::vector<std::byte> corrupt = bytes;
        corrupt[i] ^= static_cast<std::byte>(flip);
        const Result<Frame> decoded = decode_frame(corrupt);
        EXPECT_TRUE(i >= 8 || !decoded) << i;
        EXPECT_TRUE(decoded || decoded.error().code == ErrorCode::kProtocol) << i;
      }
  }
}

TEST(Bootstrap, SkipsUnknownTags) {
  // Broken: an older server refuses a newer shim that only says more.
  std::vector<std::byte> bytes = encode_frame(Frame(hello()));
  const std::vector<std::byte> extra = frame_with(1, 999, std::vector<std::byte>(33));
  bytes.insert(bytes.begin() + 12, extra.begin() + 12, extra.end());
  const auto total = static_cast<std::uint32_t>(bytes.size());
  std::memcpy(bytes.data() + 4, &total, sizeof total);
  const Result<Frame> decoded = decode_frame(bytes);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, Frame(hello()));
}

TEST(Bootstrap, RefusesNumbersOfAnotherWidth) {
  // Broken: half a session key, or a number with garbage in it, is taken for the whole.
  for (const std::size_t n : {0U, 3U, 5U, 8U})
    EXPECT_EQ(error_of(decode_frame(frame_with(1, 1, std::vector<std::byte>(n)))),
              ErrorCode::kProtocol)
        << n;
  EXPECT_EQ(error_of(decode_frame(frame_with(4, 1, std::vector<std::byte>(31, std::byte{1})))),
            ErrorCode::kProtocol);
}

TEST(Bootstrap, RefusesAnAttachWithoutAKey) {
  // Broken: a connection without a key is compared as one with a key of zeros.
  EXPECT_EQ(error_of(decode_frame(frame_with(4, 77, {}))), ErrorCode::kProtocol);
  EXPECT_EQ(error_of(decode_frame(encode_frame(Frame(Attach{})))), ErrorCode::kProtocol);
  // An encrypted one names its session instead.
  EXPECT_EQ(error_of(decode_frame(encode_frame(Frame(Attach{{}, 0, 1, 0})))), ErrorCode::kProtocol);
  EXPECT_EQ(error_of(decode_frame(encode_frame(Frame(Resume{.session_id = 7})))),
            ErrorCode::kProtocol);
  EXPECT_EQ(error_of(decode_frame(encode_frame(Frame(Resume{.is_encrypted = 1})))),
            ErrorCode::kProtocol);
}

TEST(Bootstrap, RefusesLengthsOutsideTheLimits) {
  // Broken: a stranger makes the broker allocate gigabytes.
  const auto prefix_of = [](std::uint32_t total) {
    std::vector<std::byte> out(8);
    std::memcpy(out.data(), "SLCE", 4);
    std::memcpy(out.data() + 4, &total, 4);
    return out;
  };
  EXPECT_TRUE(frame_bytes(prefix_of(12)));
  EXPECT_TRUE(frame_bytes(prefix_of(kFrameBytesMax)));
  for (const std::uint32_t total :
       {0U, 11U, static_cast<std::uint32_t>(kFrameBytesMax) + 1, 0xffffffffU})
    EXPECT_FALSE(frame_bytes(prefix_of(total))) << total;
  EXPECT_FALSE(frame_bytes(std::vector<std::byte>(8)));
  EXPECT_FALSE(frame_bytes(std::span<const std::byte>{}));
}

TEST(Bootstrap, LimitsDevicesAndAttributes) {
  // Broken: a small frame turns into a large amount of memory.
  Welcome m;
  m.devices.resize(kDeviceCountMax);
  EXPECT_TRUE(decode_frame(encode_frame(Frame(m))));
  m.devices.emplace_back();
  EXPECT_EQ(error_of(decode_frame(encode_frame(Frame(m)))), ErrorCode::kProtocol);
  m.devices.resize(1);
  m.devices[0].attributes.resize(kAttributeCountMax);
  EXPECT_TRUE(decode_frame(encode_frame(Frame(m))));
  m.devices[0].attributes.emplace_back(1, 1);
  EXPECT_EQ(error_of(decode_frame(encode_frame(Frame(m)))), ErrorCode::kProtocol);
}

TEST(Bootstrap, LimitsWhatASliceStatusHolds) {
  // Broken: as above, in the process of whoever looks at a slice.
  SliceStatus m;
  m.sessions.resize(kSliceSessionCountMax);
  m.devices.resize(kDeviceCountMax);
  m.sessions[0].uses.resize(kDeviceCountMax);
  EXPECT_TRUE(decode_frame(encode_frame(Frame(m))));
  SliceStatus uses = m, sessions = m, devices = m;
  uses.sessions[0].uses.emplace_back();
  sessions.sessions.emplace_back();
  devices.devices.emplace_back();
  for (const SliceStatus& bad : {uses, sessions, devices})
    EXPECT_EQ(error_of(decode_frame(encode_frame(Frame(bad)))), ErrorCode::kProtocol);
}

TEST(Bootstrap, ReadsAnUnknownReasonOfRefusalAsTheServers) {
  // Broken: a switch over the reasons meets one that it does not know.
  const Frame frame = Refusal{static_cast<RefusalCode>(400), "come back tomorrow"};
  const Result<Frame> decoded = decode_frame(encode_frame(frame));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, Frame(Refusal{RefusalCode::kServer, "come back tomorrow"}));
}

TEST(Bootstrap, ReadsAnUnknownReasonOfAnEndingAsTheServers) {
  // Broken: as above, for the end of a session.
  const Result<Frame> decoded =
      decode_frame(encode_frame(Frame(Ending{static_cast<EndingCode>(400), "the end", 7})));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, Frame(Ending{EndingCode::kServer, "the end", 7}));
}

TEST(Bootstrap, RefusesAnUnknownFrame) {
  // Broken: a message of a newer version is taken for one of the known ones.
  for (const std::uint16_t type : std::initializer_list<std::uint16_t>{0, 9, 0xffff})
    EXPECT_EQ(error_of(decode_frame(frame_with(type, 1, {}))), ErrorCode::kProtocol);
}

}  // namespace
}  // namespace sluice::wire
