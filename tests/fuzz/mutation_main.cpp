// Runs a harness without libFuzzer: a fixed number of mutations of its corpus, the same in every
// run.
//
// usage: HARNESS [ITERATIONS [SEED]]
//        HARNESS --write-corpus DIR    writes the corpus into an existing folder, for libFuzzer
#include "harness.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <string_view>

namespace {

using Input = std::vector<std::uint8_t>;
using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t limit) {
  return random() % limit;
}

void overwrite_u32(Input& input, std::size_t at, std::uint32_t value) {
  if (at + sizeof value <= input.size()) std::memcpy(input.data() + at, &value, sizeof value);
}

void mutate(Input& input, const Input& other, Random& random) {
  constexpr std::uint32_t kEdges[] = {0, 1, 7, 8, 0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff};
  if (input.empty()) input.push_back(0);
  const std::size_t at = below(random, input.size());
  const auto where = input.begin() + static_cast<std::ptrdiff_t>(at);
  switch (below(random, 6)) {
    case 0:
      input[at] ^= static_cast<std::uint8_t>(1U << below(random, 8));
      break;
    case 1:
      input[at] = static_cast<std::uint8_t>(random());
      break;
    case 2:
      overwrite_u32(input, at & ~std::size_t{3}, kEdges[below(random, std::size(kEdges))]);
      break;
    case 3:
      input.erase(where, where + static_cast<std::ptrdiff_t>(1 + below(random, input.size() - at)));
      break;
    case 4:
      input.insert(where, 1 + below(random, 16), static_cast<std::uint8_t>(random()));
      break;
    default: {  // splice
      const std::size_t from = below(random, other.size());
      input.resize(at);
      input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
    }
  }
}

int write_corpus(const std::string& folder) {
  int number = 0;
  for (const Input& input : fuzz_corpus()) {
    std::ofstream file(folder + "/seed" + std::to_string(number++), std::ios::binary);
    file.write(reinterpret_cast<const char*>(input.data()),
               static_cast<std::streamsize>(input.size()));
    if (!file.flush()) {
      std::fprintf(stderr, "cannot write the corpus to %s\n", folder.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--write-corpus") return write_corpus(argv[2]);
  const unsigned long iterations = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 10'000;
  Random random(argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1);
  const std::vector<Input> corpus = fuzz_corpus();
  for (const Input& input : corpus) LLVMFuzzerTestOneInput(input.data(), input.size());
  for (unsigned long i = 0; i < iterations; ++i) {
    Input input = corpus[below(random, corpus.size())];
    const std::size_t mutations = 1 + below(random, 4);
    for (std::size_t m = 0; m < mutations; ++m)
      mutate(input, corpus[below(random, corpus.size())], random);
    // Half of them with a length that fits, so that the decoder gets past its first check.
    if (const auto at = fuzz_length_offset(); at && random() % 2 == 0)
      overwrite_u32(input, *at, static_cast<std::uint32_t>(input.size()));
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%lu mutations of %zu inputs\n", iterations, corpus.size());
  return 0;
}
