#include "server/broker/printable.h"

#include <cstdint>

namespace sluice::server {
namespace {

/// Length of the well-formed UTF-8 sequence that `text` starts with; 0 if there is none.
std::size_t sequence_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Overlong forms, surrogates, and what is beyond Unicode.
  const std::uint8_t second = byte(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
    return 0;
  return length;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = sequence_bytes(text);
    const auto first = static_cast<std::uint8_t>(text[0]);
    const auto second = length == 2 ? static_cast<std::uint8_t>(text[1]) : std::uint8_t{0};
    const bool is_control =
        length == 1 ? first < 0x20 || first == 0x7F : first == 0xC2 && second < 0xA0;
    const std::string_view piece = length == 0 || is_control ? "?" : text.substr(0, length);
    if (out.size() + piece.size() > kPrintableBytesMax) break;
    out += piece;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace sluice::server
