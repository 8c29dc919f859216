#include "harness/problem/problem_key.hpp"

#include "datasets/sha256.hpp"

#include <fmt/format.h>

#include <span>

namespace clusterbench {
namespace {

template <typename T>
std::string hash_of(std::span<const T> values) {
  return datasets::sha256_hex(std::as_bytes(values));
}

std::string hash_of(const std::string& text) {
  return hash_of(std::span<const char>(text));
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
