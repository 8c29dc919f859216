#include "harness/judge/answer_form.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <span>

namespace clusterbench {
namespace {

template <typename T>
std::optional<std::string> wrong_shape(bool fcm, const Problem<T>& problem,
                                       const Answer<T>& answer) {
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
  return differs("memberships", answer.memberships.size(), fcm ? problem.n * problem.k : 0);
}

template <typename T>
std::optional<std::string> wrong_pass_count(const Problem<T>& problem, const Answer<T>& answer) {
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

template <typename T>
std::optional<std::string> label_out_of_range(const Problem<T>& problem, const Answer<T>& answer) {
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
bool has_right_form(bool fcm, const Problem<T>& problem, const Answer<T>& answer, Report& report) {
  bool right = report("shapes", wrong_shape(fcm, problem, answer));
  right = report("iterations", wrong_pass_count(problem, answer)) && right;
  if (!right) {
    return false;
  }
  right = report("label range", label_out_of_range(problem, answer));
  right = report("finite", not_finite(answer.centroids, problem.d, "cluster", "feature")) && right;
  right = report("finite", not_finite(answer.memberships, problem.k, "point", "cluster")) && right;
  return report("finite",
                not_finite(answer.recorded, problem.k * problem.d, "recorded pass", "value")) &&
         right;
}

template bool has_right_form(bool, const Problem<float>&, const Answer<float>&, Report&);
template bool has_right_form(bool, const Problem<double>&, const Answer<double>&, Report&);

} // namespace clusterbench
