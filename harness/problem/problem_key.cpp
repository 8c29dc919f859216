#include "harness/problem/problem_key.hpp"

#include "datasets/parallel.hpp"
#include "datasets/sha256.hpp"

#include <fmt/format.h>

#include <span>
#include <vector>

namespace clusterbench {
namespace {

std::string hash_of(const std::string& text) {
  return datasets::sha256_hex(std::as_bytes(std::span(text)));
}

// The hash of its pieces' hashes, which all cores make.
template <typename T>
std::string hash_of(std::span<const T> values) {
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  const std::span<const std::byte> bytes = std::as_bytes(values);
  std::vector<std::string> hashes((bytes.size() + kPiece - 1) / kPiece);
  datasets::parallel_pieces(bytes.size(), kPiece, [&](std::size_t begin, std::size_t end) {
    hashes[begin / kPiece] = datasets::sha256_hex(bytes.subspan(begin, end - begin));
  });
  return hash_of(fmt::format("{}", fmt::join(hashes, " ")));
}

} // namespace

template <typename T>
std::string points_key(const Problem<T>& problem) {
  std::string text = fmt::format("points of {} bytes, {} x {}: {}", sizeof(T), problem.n, problem.d,
                                 hash_of(problem.points));
  if (!problem.weights.empty()) {
    text += ", weights: " + hash_of(problem.weights);
  }
  return hash_of(text);
}

template <typename T>
std::string problem_key(Family family, const Problem<T>& problem, const std::string& points_key) {
  return hash_of(fmt::format(
      "problem {} {}: {} clusters from centroids {} memberships {}, "
      "stop {} {:a} {}, fuzzifier {:a}",
      static_cast<int>(family), points_key, problem.k, hash_of(problem.centroids),
      hash_of(problem.memberships), static_cast<int>(problem.stop.kind), problem.stop.threshold,
      problem.stop.max_iterations, family == Family::fcm ? problem.fuzzifier : 0.0));
}

template std::string points_key(const Problem<float>&);
template std::string points_key(const Problem<double>&);
template std::string problem_key(Family, const Problem<float>&, const std::string&);
template std::string problem_key(Family, const Problem<double>&, const std::string&);

} // namespace clusterbench
