// Makes fatbins for tests.
#pragma once

#include <lz4.h>
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::test {

class FatbinBuilder {
 public:
  enum class Codec { kPlain, kZstd, kLz4 };
  struct Options {
    std::uint16_t kind = 1;  // PTX; 2 = ELF
    std::uint32_t arch = 75;
    Codec codec = Codec::kPlain;
    std::uint64_t more_flags = 0;
  };

  FatbinBuilder& add(std::string_view image, const Options& options) {
    std::string raw(image);
    if (options.kind == 1) raw.push_back('\0');
    std::string stored = compress(raw, options.codec);
    const auto compressed_bytes =
        options.codec == Codec::kPlain ? 0u : static_cast<std::uint32_t>(stored.size());
    stored.resize((stored.size() + 7) / 8 * 8);
    std::string header(64, '\0');
    put(header, 0, options.kind);
    put(header, 2, std::uint16_t{0x101});
    put(header, 4, std::uint32_t{64});
    put(header, 8, std::uint64_t{stored.size()});
    put(header, 16, compressed_bytes);
    put(header, 28, options.arch);
    const std::uint64_t codec_flag = options.codec == Codec::kZstd  ? 0x8000u
                                     : options.codec == Codec::kLz4 ? 0x2000u
                                                                    : 0u;
    put(header, 40, std::uint64_t{0x11} | codec_flag | options.more_flags);
    put(header, 56, std::uint64_t{options.codec == Codec::kPlain ? 0 : raw.size()});
    body_ += header + stored;
    return *this;
  }

  [[nodiscard]] std::vector<std::byte> build() const {
    std::string out(16, '\0');
    put(out, 0, std::uint32_t{0xba55ed50});
    put(out, 4, std::uint16_t{1});
    put(out, 6, std::uint16_t{16});
    put(out, 8, std::uint64_t{body_.size()});
    out += body_;
    const auto* bytes = reinterpret_cast<const std::byte*>(out.data());
    return {bytes, bytes + out.size()};
  }

 private:
  template <class T>
  static void put(std::string& out, std::size_t offset, T value) {
    std::memcpy(out.data() + offset, &value, sizeof value);
  }
  static std::string compress(const std::string& raw, Codec codec) {
    if (codec == Codec::kPlain) return raw;
    std::string out(raw.size() + 1024, '\0');
    if (codec == Codec::kZstd)
      out.resize(ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), 3));
    else
      out.resize(static_cast<std::size_t>(LZ4_compress_default(
          raw.data(), out.data(), static_cast<int>(raw.size()), static_cast<int>(out.size()))));
    return out;
  }
  std::string body_;
};

}  // namespace sluice::test
