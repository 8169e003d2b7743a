// Fatbins come from the application: lengths, flags and compressed data may be anything.
#include "common/fatbin.h"
#include "tests/fuzz/harness.h"
#include "tests/unit/fatbin_builder.h"

#include <algorithm>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::vector<std::uint8_t> copy(data, data + bytes);  // so that its end is guarded
  const auto entries = sluice::fatbin_entries(std::as_bytes(std::span(copy)));
  if (!entries) return 0;
  for (const sluice::FatbinEntry& entry : *entries)
    if (entry.raw_bytes < (1 << 24)) static_cast<void>(sluice::fatbin_text(entry));
  return 0;
}

std::optional<std::size_t> fuzz_length_offset() {
  return std::nullopt;
}

std::vector<std::vector<std::uint8_t>> fuzz_corpus() {
  using Builder = sluice::test::FatbinBuilder;
  const std::string text =
      ".version 7.5\n.target sm_75\n.address_size 64\n" + std::string(300, ' ');
  std::vector<std::vector<std::uint8_t>> corpus;
  for (const auto codec : {Builder::Codec::kPlain, Builder::Codec::kZstd, Builder::Codec::kLz4}) {
    const auto image =
        Builder().add(text, {.codec = codec}).add("elf", {.kind = 2, .arch = 90}).build();
    auto& input = corpus.emplace_back();
    for (const std::byte byte : image) input.push_back(static_cast<std::uint8_t>(byte));
  }
  return corpus;
}
