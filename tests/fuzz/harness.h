// What a fuzz harness gives to its two drivers, libFuzzer and mutation_main.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);

/// Valid inputs to start from.
std::vector<std::vector<std::uint8_t>> fuzz_corpus();

/// Where an input says how long it is, as 32 bits: half of the mutations repair that.
std::optional<std::size_t> fuzz_length_offset();
