#include "harness/judge/oracle_cache.hpp"

#include "datasets/catalog.hpp"
#include "harness/system/messages.hpp"

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

// A file is: magic, checksum of all that follows, the key, then the run as little-endian 64-bit
// words in the order of OracleRun. It is read on the machine that wrote it.
static_assert(std::endian::native == std::endian::little);
constexpr std::array<char, 8> kMagic = {'o', 'r', 'a', 'c', 'l', 'e', '0', '2'};

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
  void text(const std::string& value) {
    count(value.size());
    bytes_.append(value);
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
  std::string text() {
    const std::size_t size = count();
    if (size > bytes_.size()) {
      throw std::runtime_error("oracle cache: a text exceeds the file");
    }
    const std::string value(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return value;
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

std::string encode(const std::string& key, const OracleRun& run) {
  Writer out;
  out.text(key);
  out.count(run.iterations);
  out.count(run.complete ? 1 : 0);
  out.count(run.repeats);
  out.count(run.states.size());
  for (const OracleState& state : run.states) {
    out.count(state.pass);
    out.numbers(state.centroids);
  }
  out.numbers(run.loss);
  out.numbers(run.inertia);
  out.number(run.final_objective);
  out.count(run.still_moving ? 1 : 0);
  out.count(run.stood_still_at);
  out.count(run.empty_at);
  return out.bytes();
}

OracleRun decode(std::string_view bytes, const std::string& key) {
  Reader in(bytes);
  if (in.text() != key) {
    throw std::runtime_error("oracle cache: the run of another problem");
  }
  OracleRun run;
  run.iterations = in.count();
  run.complete = in.count() != 0;
  run.repeats = in.count();
  const std::size_t states = in.count();
  for (std::size_t i = 0; i < states; ++i) {
    OracleState state;
    state.pass = in.count();
    state.centroids = in.numbers();
    run.states.push_back(std::move(state));
  }
  run.loss = in.numbers();
  run.inertia = in.numbers();
  run.final_objective = in.number();
  run.still_moving = in.count() != 0;
  run.stood_still_at = in.count();
  run.empty_at = in.count();
  if (!in.at_end()) {
    throw std::runtime_error("oracle cache: wrong length");
  }
  return run;
}

std::filesystem::path file_of(const std::filesystem::path& cache, const std::string& key) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (key.empty() || key.front() == '.' || key.find_first_not_of(kAllowed) != std::string::npos) {
    throw std::invalid_argument("oracle cache: '" + key + "' cannot be a file name");
  }
  return cache / (key + ".oracle");
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
  const std::filesystem::path cache = datasets::cache_directory_or_none();
  return cache.empty() ? cache : cache / "oracle";
}

std::optional<OracleRun> load_oracle_run(const std::filesystem::path& cache,
                                         const std::string& key) {
  const std::filesystem::path path = file_of(cache, key);
  std::error_code none;
  if (cache.empty() || !std::filesystem::is_regular_file(path, none)) { // a pipe would not end
    return std::nullopt;
  }
  std::ifstream file(path, std::ios::binary);
  std::array<char, kMagic.size()> magic{};
  std::uint64_t expected = 0;
  file.read(magic.data(), static_cast<std::streamsize>(magic.size()));
  file.read(reinterpret_cast<char*>(&expected), sizeof(expected));
  if (!file || magic != kMagic) {
    return std::nullopt;
  }
  const std::string body{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (checksum(body) != expected) {
    return std::nullopt;
  }
  try {
    return decode(body, key);
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

void store_oracle_run(const std::filesystem::path& cache, const std::string& key,
                      const OracleRun& run) {
  static std::atomic<unsigned> serial{0};
  const std::filesystem::path target = file_of(cache, key);
  if (cache.empty()) {
    throw std::runtime_error("none of CLUSTERBENCH_CACHE, XDG_CACHE_HOME and HOME is set");
  }
  std::error_code failure;
  std::filesystem::create_directories(cache, failure);
  if (failure) {
    throw std::runtime_error(cache.string() + ": " + failure.message());
  }
  const std::filesystem::path temporary =
      target.string() + "." + std::to_string(::getpid()) + "." + std::to_string(serial++) + ".tmp";
  const std::string body = encode(key, run);
  const std::uint64_t sum = checksum(body);
  std::array<char, sizeof(sum)> sum_bytes;
  std::memcpy(sum_bytes.data(), &sum, sizeof(sum));
  std::ofstream file(temporary, std::ios::binary);
  file.write(kMagic.data(), static_cast<std::streamsize>(kMagic.size()));
  file.write(sum_bytes.data(), static_cast<std::streamsize>(sum_bytes.size()));
  file.write(body.data(), static_cast<std::streamsize>(body.size()));
  file.close();
  if (file) {
    std::filesystem::rename(temporary, target, failure);
  }
  if (!file || failure) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw std::runtime_error("oracle cache: cannot write " + target.string() +
                             (failure ? ": " + failure.message() : ""));
  }
}

template <typename T>
OracleRun cached_oracle_run(const std::filesystem::path& cache, const std::string& key,
                            Family family, const Problem<T>& problem,
                            const OracleOptions& options) {
  // A run that the budget cuts short is not the problem's whole one.
  const std::size_t affordable = affordable_passes(problem, options.budget);
  const std::string name =
      affordable == problem.stop.max_iterations ? key : key + "-" + std::to_string(affordable);
  std::optional<OracleRun> stored = load_oracle_run(cache, name);
  if (stored && fits(*stored, family, problem)) {
    return *std::move(stored);
  }
  OracleRun run = run_oracle(family, problem, options);
  if (options.interrupted && options.interrupted()) { // its last rows may be no rows
    throw Interrupted();
  }
  if (run.iterations == 0) {
    return run;
  }
  try {
    store_oracle_run(cache, name, run);
  } catch (const std::runtime_error& error) { // std::filesystem::filesystem_error is one
    say_once(error.what());
  }
  return run;
}

template OracleRun cached_oracle_run(const std::filesystem::path&, const std::string&, Family,
                                     const Problem<float>&, const OracleOptions&);
template OracleRun cached_oracle_run(const std::filesystem::path&, const std::string&, Family,
                                     const Problem<double>&, const OracleOptions&);

} // namespace clusterbench
