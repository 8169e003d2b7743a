// Formatting of device printf. The host's snprintf does one conversion at a time, from values that
// lie in the kernel's memory as if in a structure: each at a multiple of its size.
#include "softgpu/exec/services.h"

#include <cstdio>
#include <cstring>

namespace sluice::softgpu {
namespace {

class Formatter {
 public:
  Formatter(const std::byte* arguments, char* out, std::size_t bytes_max)
      : arguments_(arguments), out_(out), bytes_max_(bytes_max) {}

  void run(const char* format) {
    for (const char* at = format; *at != '\0';) {
      if (*at != '%') {
        put(*at++);
      } else if (at[1] == '%') {
        put('%');
        at += 2;
      } else {
        at = conversion(at);
      }
    }
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] int taken() const { return taken_; }

 private:
  void put(char c) {
    if (bytes_ < bytes_max_) out_[bytes_++] = c;
  }

  template <class T>
  T take() {
    offset_ = (offset_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value;
    std::memcpy(&value, arguments_ + offset_, sizeof value);
    offset_ += sizeof value;
    ++taken_;
    return value;
  }

  template <class T>
  void print(T value) {
    const int made = std::snprintf(out_ + bytes_, bytes_max_ - bytes_ + 1, spec_, value);
    if (made > 0) bytes_ = std::min(bytes_ + static_cast<std::size_t>(made), bytes_max_);
  }

  void append(const char* text, std::size_t bytes) {
    bytes = std::min(bytes, sizeof spec_ - 1 - spec_bytes_);
    std::memcpy(spec_ + spec_bytes_, text, bytes);
    spec_bytes_ += bytes;
    spec_[spec_bytes_] = '\0';
  }

  /// Digits or a star, which takes an argument.
  const char* number(const char* at) {
    if (*at == '*') {
      char text[16];
      const int bytes = std::snprintf(text, sizeof text, "%d", take<int>());
      append(text, static_cast<std::size_t>(bytes));
      return at + 1;
    }
    const std::size_t digits = std::strspn(at, "0123456789");
    append(at, digits);
    return at + digits;
  }

  const char* conversion(const char* at) {
    spec_bytes_ = 0;
    append("%", 1);
    ++at;
    const std::size_t flags = std::strspn(at, "-+ #0");
    append(at, flags);
    at = number(at + flags);
    if (*at == '.') {
      append(".", 1);
      at = number(at + 1);
    }
    const std::size_t lengths = std::strspn(at, "hljzt");
    const bool is_wide = lengths > 0 && *at != 'h';
    const char* half = *at == 'h' ? at : "";
    const std::size_t half_bytes = *at == 'h' ? std::min<std::size_t>(lengths, 2) : 0;
    at += lengths;
    const char letter = *at;
    if (letter == '\0') return at;
    if (std::strchr("dioxXu", letter) != nullptr) {
      append(is_wide ? "ll" : half, is_wide ? 2 : half_bytes);
      append(&letter, 1);
      is_wide ? print(take<long long>()) : print(take<int>());
    } else if (letter == 'c') {
      append(&letter, 1);
      print(take<int>());
    } else if (std::strchr("fFeEgGaA", letter) != nullptr) {
      append(&letter, 1);
      print(take<double>());
    } else if (letter == 'p') {
      append(&letter, 1);
      print(take<const void*>());
    } else if (letter == 's') {
      append(&letter, 1);
      const auto* text = take<const char*>();
      print(text != nullptr ? text : "(null)");
    } else {
      put(letter);  // no conversion that CUDA has
    }
    return at + 1;
  }

  const std::byte* arguments_;
  char* out_;
  std::size_t bytes_max_, bytes_ = 0, offset_ = 0;
  int taken_ = 0;
  char spec_[64];
  std::size_t spec_bytes_ = 0;
};

}  // namespace

int format_printf(const char* format, const std::byte* arguments, char* out, std::size_t bytes_max,
                  std::size_t* bytes) {
  *bytes = 0;
  if (format == nullptr) return -1;
  Formatter formatter(arguments, out, bytes_max);
  formatter.run(format);
  *bytes = formatter.bytes();
  return formatter.taken();
}

}  // namespace sluice::softgpu
