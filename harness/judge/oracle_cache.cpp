#include "harness/judge/oracle_cache.hpp"

#include "datasets/catalog.hpp"
#include "harness/messages.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace clusterbench {
namespace {

// A file is: magic, checksum of all that follows, then the run as little-endian 64-bit words in
// the order of OracleRun. It is read on the machine that wrote it.
static_assert(std::endian::native == std::endian::little);
constexpr std::array<char, 8> kMagic = {'o', 'r', 'a', 'c', 'l', 'e', '0', '1'};

/// FNV-1a: finds torn and damaged files; it is no defence against forged ones.
std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
  }
  return hash;
}

class Writer {
public:
  void count(std::size_t value) { raw(static_cast<std::uint64_t>(value)); }
  void number(double value) { raw(std::bit_cast<std::uint64_t>(value)); }
  void numbers(const std::vector<double>& values) {
    count(values.size());
    for (const double value : values) {
      number(value);
    }
  }
  const std::string& bytes() const { return bytes_; }

private:
  void raw(std::uint64_t word) {
    std::array<char, sizeof(word)> bytes;
    std::memcpy(bytes.data(), &word, sizeof(word));
    bytes_.append(bytes.data(), bytes.size());
  }
  std::string bytes_;
};

/// Reads what Writer wrote; throws std::runtime_error beyond the end.
class Reader {
public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  std::size_t count() { return static_cast<std::size_t>(raw()); }
  double number() { return std::bit_cast<double>(raw()); }
  std::vector<double> numbers() {
    const std::size_t size = count();
    if (size > bytes_.size() / sizeof(std::uint64_t)) {
      throw std::runtime_error("oracle cache: a count exceeds the file");
    }
    std::vector<double> values(size);
    for (double& value : values) {
      value = number();
    }
    return values;
  }
  bool at_end() const { return bytes_.empty(); }

private:
  std::uint64_t raw() {
    std::uint64_t word = 0;
    if (bytes_.size() < sizeof(word)) {
      throw std::runtime_error("oracle cache: the file is too short");
    }
    std::memcpy(&word, bytes_.data(), sizeof(word));
    bytes_.remove_prefix(sizeof(word));
    return word;
  }
  std::string_view bytes_;
};

std::string encode(const OracleRun& run) {
  Writer out;
  out.count(run.iterations);
  out.count(run.centroids.size());
  for (const std::vector<double>& centroids : run.centroids) {
    out.numbers(centroids);
  }
  out.numbers(run.loss);
  out.numbers(run.inertia);
  out.number(run.final_objective);
  out.count(run.still_moving ? 1 : 0);
  out.count(run.stood_still_at);
  out.count(run.empty_at);
  return out.bytes();
}

OracleRun decode(std::string_view bytes) {
  Reader in(bytes);
  OracleRun run;
  run.iterations = in.count();
  if (run.iterations > bytes.size() || in.count() != run.iterations + 1) {
    throw std::runtime_error("oracle cache: passes and centroids do not match");
  }
  for (std::size_t i = 0; i <= run.iterations; ++i) {
    run.centroids.push_back(in.numbers());
  }
  run.loss = in.numbers();
  run.inertia = in.numbers();
  run.final_objective = in.number();
  run.still_moving = in.count() != 0;
  run.stood_still_at = in.count();
  run.empty_at = in.count();
  if (!in.at_end() || run.loss.size() != run.iterations) {
    throw std::runtime_error("oracle cache: wrong length");
  }
  return run;
}

std::filesystem::path file_of(const std::filesystem::path& cache, const std::string& hash) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (hash.empty() || hash.front() == '.' ||
      hash.find_first_not_of(kAllowed) != std::string::npos) {
    throw std::invalid_argument("oracle cache: '" + hash + "' cannot be a file name");
  }
  return cache / (hash + ".oracle");
}

// Without the cache everything takes longer, and nothing else is different.
void say_once(const char* why) {
  static bool said = false;
  if (!std::exchange(said, true)) {
    say("the oracle's runs are not kept for later campaigns: {}\n", why);
  }
}

} // namespace

std::filesystem::path oracle_cache_folder() {
  return datasets::cache_directory() / "oracle";
}

std::optional<OracleRun> load_oracle_run(const std::filesystem::path& cache,
                                         const std::string& hash) {
  std::ifstream file(file_of(cache, hash), std::ios::binary);
  if (!file) {
    return std::nullopt;
  }
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  constexpr std::size_t kHead = kMagic.size() + sizeof(std::uint64_t);
  if (bytes.size() < kHead || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return std::nullopt;
  }
  std::uint64_t expected = 0;
  std::memcpy(&expected, bytes.data() + kMagic.size(), sizeof(expected));
  const std::string_view body = std::string_view(bytes).substr(kHead);
  if (checksum(body) != expected) {
    return std::nullopt;
  }
  try {
    return decode(body);
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

void store_oracle_run(const std::filesystem::path& cache, const std::string& hash,
                      const OracleRun& run) {
  static std::atomic<unsigned> serial{0};
  const std::filesystem::path target = file_of(cache, hash);
  std::filesystem::create_directories(cache);
  const std::filesystem::path temporary =
      target.string() + "." + std::to_string(::getpid()) + "." + std::to_string(serial++) + ".tmp";
  const std::string body = encode(run);
  const std::uint64_t sum = checksum(body);
  std::array<char, sizeof(sum)> sum_bytes;
  std::memcpy(sum_bytes.data(), &sum, sizeof(sum));
  std::ofstream file(temporary, std::ios::binary);
  file.write(kMagic.data(), static_cast<std::streamsize>(kMagic.size()));
  file.write(sum_bytes.data(), static_cast<std::streamsize>(sum_bytes.size()));
  file.write(body.data(), static_cast<std::streamsize>(body.size()));
  file.close();
  if (!file) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw std::runtime_error("oracle cache: cannot write " + temporary.string());
  }
  std::filesystem::rename(temporary, target);
}

template <typename T>
OracleRun cached_oracle_run(const std::filesystem::path& cache, const std::string& hash,
                            Family family, const Problem<T>& problem) {
  if (std::optional<OracleRun> stored = load_oracle_run(cache, hash)) {
    return *std::move(stored);
  }
  OracleRun run = run_oracle(family, problem);
  try {
    store_oracle_run(cache, hash, run);
  } catch (const std::runtime_error& error) { // std::filesystem::filesystem_error is one
    say_once(error.what());
  }
  return run;
}

template OracleRun cached_oracle_run(const std::filesystem::path&, const std::string&, Family,
                                     const Problem<float>&);
template OracleRun cached_oracle_run(const std::filesystem::path&, const std::string&, Family,
                                     const Problem<double>&);

} // namespace clusterbench
