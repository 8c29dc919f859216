// A small stand-in for libFuzzer where clang is missing: feeds every file of a corpus, then
// mutations of them, always the same ones.
//
//     fuzz_x CORPUS [RUNS]
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

std::vector<Input> read_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end()); // the same order everywhere
  std::vector<Input> corpus;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return corpus;
}

Input mutate(Input input, const std::vector<Input>& corpus, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (std::size_t step = 0, steps = 1 + below(4); step < steps; ++step) {
    const auto at = static_cast<std::ptrdiff_t>(below(input.size() + 1));
    const auto length = static_cast<std::ptrdiff_t>(
        below(std::min<std::size_t>(16, input.size() - static_cast<std::size_t>(at) + 1)));
    switch (below(5)) {
    case 0: // one byte changed
      if (at < std::ssize(input))
        input[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(random());
      break;
    case 1: // one byte more
      input.insert(input.begin() + at, static_cast<std::uint8_t>(random()));
      break;
    case 2: // a few bytes fewer
      input.erase(input.begin() + at, input.begin() + at + length);
      break;
    case 3: { // a stretch of another input
      const Input& other = corpus[below(corpus.size())];
      const std::size_t from = below(other.size() + 1);
      const std::size_t count = below(std::min<std::size_t>(16, other.size() - from) + 1);
      input.insert(input.begin() + at, other.begin() + static_cast<std::ptrdiff_t>(from),
                   other.begin() + static_cast<std::ptrdiff_t>(from + count));
      break;
    }
    default: // cut short
      input.resize(static_cast<std::size_t>(at));
    }
  }
  return input;
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: " << argv[0] << " CORPUS [RUNS]\n";
    return 64;
  }
  const std::vector<Input> corpus = read_corpus(argv[1]);
  const long runs = argc > 2 ? std::atol(argv[2]) : 20000;
  if (corpus.empty()) {
    std::cerr << argv[1] << ": an empty corpus\n";
    return 64;
  }
  for (const Input& input : corpus)
    LLVMFuzzerTestOneInput(input.data(), input.size());
  std::mt19937_64 random(1);
  for (long run = 0; run < runs; ++run) {
    const Input input = mutate(corpus[random() % corpus.size()], corpus, random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::cout << corpus.size() << " inputs and " << runs << " mutations\n";
  return 0;
}
