#include "harness/judge/answer_form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>

namespace clusterbench {
namespace {

template <typename T>
std::optional<std::string> wrong_shape(bool fcm, const Problem<T>& problem,
                                       const JudgedAnswer<T>& answer) {
  const auto differs = [](const char* what, std::size_t got, std::size_t expected) {
    return got == expected
               ? std::nullopt
               : std::optional(fmt::format("{}: got {} values, expected {}", what, got, expected));
  };
  if (auto labels = differs("labels", answer.labels.size(), problem.n)) {
    return labels;
  }
  if (auto centroids = differs("centroids", answer.centroids.size(), problem.k * problem.d)) {
    return centroids;
  }
  if (!answer.entering.empty()) {
    if (auto entering = differs("entering", answer.entering.size(), problem.k * problem.d)) {
      return entering;
    }
  }
  return differs("memberships", answer.memberships.size(), fcm ? problem.n * problem.k : 0);
}

template <typename T>
std::optional<std::string> wrong_pass_count(const Problem<T>& problem,
                                            const JudgedAnswer<T>& answer) {
  const std::size_t most = problem.stop.max_iterations;
  if (answer.iterations == 0 || answer.iterations > most) {
    return fmt::format("{} iterations reported, expected 1 to {}", answer.iterations, most);
  }
  const std::size_t size = problem.k * problem.d;
  if (!answer.recorded.empty() && answer.recorded.size() != answer.iterations * size) {
    return fmt::format("{} iterations reported, but the centroids of {} recorded",
                       answer.iterations,
                       static_cast<double>(answer.recorded.size()) / static_cast<double>(size));
  }
  return std::nullopt;
}

/// The harness fills an answer's memory with bytes 0xFF: as an integer -1, as a number a NaN that
/// no computation makes.
template <typename Value>
std::optional<std::string> not_written(std::span<const Value> values, const char* what) {
  const auto is_poison = [](const Value& value) {
    const auto bytes = std::bit_cast<std::array<unsigned char, sizeof(Value)>>(value);
    return std::ranges::all_of(bytes, [](unsigned char byte) { return byte == 0xFF; });
  };
  const auto first = std::ranges::find_if(values, is_poison);
  if (first == values.end()) {
    return std::nullopt;
  }
  return fmt::format("{}: value {} was not written, and {} of {} were not", what,
                     first - values.begin(), std::ranges::count_if(values, is_poison),
                     values.size());
}

template <typename T>
std::optional<std::string> label_out_of_range(const Problem<T>& problem,
                                              const JudgedAnswer<T>& answer) {
  for (std::size_t i = 0; i < problem.n; ++i) {
    const std::int32_t label = answer.labels[i];
    if (label < 0 || static_cast<std::size_t>(label) >= problem.k) {
      return fmt::format("point {}: label {}, expected 0 to {}", i, label, problem.k - 1);
    }
  }
  return std::nullopt;
}

template <typename T>
std::optional<std::string> not_finite(std::span<const T> values, std::size_t columns,
                                      const char* row_name, const char* column_name) {
  const auto bad =
      std::find_if(values.begin(), values.end(), [](T value) { return !std::isfinite(value); });
  if (bad == values.end()) {
    return std::nullopt;
  }
  const auto i = static_cast<std::size_t>(bad - values.begin());
  return fmt::format("{} {}, {} {}: got {}", row_name, i / columns, column_name, i % columns,
                     static_cast<double>(*bad));
}

} // namespace

template <typename T>
bool has_right_form(bool fcm, const Problem<T>& problem, const JudgedAnswer<T>& answer,
                    Report& report) {
  bool right = report("shapes", wrong_shape(fcm, problem, answer));
  right = report("iterations", wrong_pass_count(problem, answer)) && right;
  if (!right) {
    return false;
  }
  right = report("written", not_written(answer.labels, "labels"));
  right = report("written", not_written(answer.centroids, "centroids")) && right;
  right = report("written", not_written(answer.entering, "entering")) && right;
  right = report("written", not_written(answer.memberships, "memberships")) && right;
  if (!right) {
    return false;
  }
  const std::size_t d = problem.d;
  right = report("label range", label_out_of_range(problem, answer));
  right = report("finite", not_finite(answer.centroids, d, "cluster", "feature")) && right;
  right = report("finite", not_finite(answer.entering, d, "entering cluster", "feature")) && right;
  right = report("finite", not_finite(answer.memberships, problem.k, "point", "cluster")) && right;
  return report("finite", not_finite(answer.recorded, problem.k * d, "recorded pass", "value")) &&
         right;
}

template bool has_right_form(bool, const Problem<float>&, const JudgedAnswer<float>&, Report&);
template bool has_right_form(bool, const Problem<double>&, const JudgedAnswer<double>&, Report&);

} // namespace clusterbench
