#include "harness/problem/starts.hpp"

#include "datasets/parallel.hpp"
#include "harness/problem/secret_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace clusterbench {
namespace {

template <typename T>
std::string_view bytes_of(std::span<const T> row) {
  return {reinterpret_cast<const char*>(row.data()), row.size_bytes()};
}

/// Up to `most` rows, evenly spread.
template <typename T>
std::vector<std::span<const T>> some_rows(const Problem<T>& problem, std::size_t most) {
  const std::size_t count = std::min(problem.n, most);
  std::vector<std::span<const T>> rows;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t row = i * (problem.n / count) + i * (problem.n % count) / count;
    rows.push_back(problem.points.subspan(row * problem.d, problem.d));
  }
  return rows;
}

/// Whether sets of k rows are so many that drawn ones differ.
template <typename T>
bool has_many_sets_of_rows(const Problem<T>& problem) {
  constexpr double kBits = 20.0;
  const auto rows = some_rows(problem, 4096);
  std::unordered_set<std::string_view> distinct;
  for (const auto row : rows) {
    distinct.insert(bytes_of(row));
  }
  const std::size_t n = 2 * distinct.size() < rows.size() ? distinct.size() : problem.n;
  const double k = static_cast<double>(problem.k);
  return 2 * problem.k <= n && k * std::log2(static_cast<double>(n) / k) >= kBits;
}

/// [d]. A feature that is the same everywhere is to stay where it is, unless all are.
template <typename T>
std::vector<double> deviations(const Problem<T>& problem) {
  const auto rows = some_rows(problem, 65536);
  const double count = static_cast<double>(rows.size());
  std::vector<double> mean(problem.d), deviation(problem.d);
  for (const auto row : rows) {
    for (std::size_t f = 0; f < problem.d; ++f) {
      mean[f] += static_cast<double>(row[f]) / count;
    }
  }
  for (const auto row : rows) {
    for (std::size_t f = 0; f < problem.d; ++f) {
      const double away = static_cast<double>(row[f]) - mean[f];
      deviation[f] += away * away / count;
    }
  }
  for (double& value : deviation) {
    value = std::sqrt(value);
  }
  const auto constant = [&](std::size_t f) { // but for the rounding of its mean
    return !(deviation[f] > 1e-12 * std::abs(mean[f]));
  };
  bool all_constant = true;
  for (std::size_t f = 0; f < problem.d; ++f) {
    all_constant = all_constant && constant(f);
  }
  for (std::size_t f = 0; f < problem.d; ++f) {
    if (all_constant) {
      deviation[f] = mean[f] == 0.0 ? 1.0 : std::abs(mean[f]);
    } else if (constant(f)) {
      deviation[f] = 0.0;
    }
  }
  return deviation;
}

/// The distance from |value| to the next larger number.
template <typename T>
T ulp(T value) {
  const T magnitude = std::abs(value);
  return std::nextafter(magnitude, std::numeric_limits<T>::infinity()) - magnitude;
}

/// value moved by `step`, at least some ulp and within +-most.
template <typename T>
T moved_by(T value, double step, T most) {
  const double least = 4.0 * static_cast<double>(ulp(value));
  const double clear = std::copysign(std::max(std::abs(step), least), step);
  const double there = static_cast<double>(value) + clear;
  const double limit = static_cast<double>(most);
  return static_cast<T>(std::abs(there) <= limit ? there : static_cast<double>(value) - clear);
}

} // namespace

template <typename T>
StartSequence<T>::StartSequence(InitSpec::Kind kind, const Problem<T>& problem, std::string hash,
                                std::uint64_t secret, std::size_t round, std::size_t samples)
    : problem_(problem), hash_(std::move(hash)), secret_(secret), round_(round),
      own_(problem.memberships.empty() ? problem.centroids : problem.memberships),
      own_position_(SecretStream(secret, purpose("own start", 0))
                        .index(std::clamp<std::size_t>(samples, 1, kStartCycle))) {
  if (problem_.memberships.empty()) {
    const bool are_rows = kind == InitSpec::Kind::first || kind == InitSpec::Kind::rows ||
                          kind == InitSpec::Kind::random;
    draws_rows_ = are_rows && has_many_sets_of_rows(problem_);
    deviation_ = deviations(problem_);
  }
}

template <typename T>
std::string StartSequence<T>::purpose(const char* what, std::size_t i) const {
  return fmt::format("{} {} of {} in round {}", what, i, hash_, round_);
}

template <typename T>
std::vector<T> StartSequence<T>::at(std::size_t i) const {
  return i == own_position() ? std::vector<T>(own_.begin(), own_.end()) : drawn(i);
}

template <typename T>
std::vector<T> StartSequence<T>::drawn(std::size_t i) const {
  if (!problem_.memberships.empty()) {
    return mixed_memberships(i);
  }
  if (!draws_rows_) {
    return moved({own_.begin(), own_.end()}, i);
  }
  std::vector<T> rows = drawn_rows(i);
  return rows.empty()        ? moved({own_.begin(), own_.end()}, i)
         : moves_in_cycle(i) ? moved(std::move(rows), i)
                             : rows;
}

/// Three of each nine, in a secret order.
template <typename T>
bool StartSequence<T>::moves_in_cycle(std::size_t i) const {
  SecretStream random(secret_, purpose("cycle", i / kStartCycle));
  std::vector<std::size_t> order(kStartCycle);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t last = kStartCycle; last > 1; --last) {
    std::swap(order[last - 1], order[random.index(last)]);
  }
  return order[i % kStartCycle] < kStartCycle / 3;
}

/// Rows of which no two are equal and that are not the own start's; empty if there are too few.
/// The first is another one for each i below n.
template <typename T>
std::vector<T> StartSequence<T>::drawn_rows(std::size_t i) const {
  const std::size_t d = problem_.d;
  SecretStream of_all(secret_, purpose("first row", 0));
  SecretStream random(secret_, purpose("rows", i));
  std::size_t step = 1 + of_all.index(problem_.n);
  while (std::gcd(step, problem_.n) != 1) {
    ++step;
  }
  const std::size_t from = of_all.index(problem_.n);
  std::size_t row = (from + i % problem_.n * (step % problem_.n)) % problem_.n;

  std::vector<T> rows;
  std::unordered_set<std::string_view> taken;
  for (std::size_t tries = 0; taken.size() < problem_.k; ++tries) {
    if (tries > 64 + 4 * problem_.k) {
      return {};
    }
    const auto point = problem_.points.subspan(row * d, d);
    if (taken.insert(bytes_of(point)).second) {
      rows.insert(rows.end(), point.begin(), point.end());
    }
    row = random.index(problem_.n);
  }
  std::size_t own_rows = 0;
  for (std::size_t j = 0; j < problem_.k; ++j) {
    own_rows += taken.contains(bytes_of(own_.subspan(j * d, d))) ? 1 : 0;
  }
  return own_rows == problem_.k ? std::vector<T>() : rows;
}

/// Each coordinate a little away, and the clusters turned on by some places.
template <typename T>
std::vector<T> StartSequence<T>::moved(std::vector<T> centroids, std::size_t i) const {
  constexpr double kLeast = 0.02;
  constexpr double kMost = 0.1;
  const std::size_t d = problem_.d;
  const T most = largest_coordinate<T>(d);
  SecretStream random(secret_, purpose("move", i));
  const auto places = static_cast<std::ptrdiff_t>(random.index(problem_.k) * d);
  std::ranges::rotate(centroids, centroids.begin() + places);
  bool is_first = true;
  for (std::size_t e = 0; e < centroids.size(); ++e) {
    const double deviation = deviation_[e % d];
    const double part = kLeast + (kMost - kLeast) * random.uniform();
    const double sign = random.next() >> 63 == 0 ? 1.0 : -1.0;
    if (!(deviation > 0.0)) {
      continue;
    }
    if (std::exchange(is_first, false)) {
      // As many more ulp as there were starts before: no two are the same, however few digits
      // the deviation has.
      const double more = static_cast<double>(i + 4) * static_cast<double>(ulp(centroids[e]));
      centroids[e] = moved_by(centroids[e], kLeast * deviation + more, most);
    } else {
      centroids[e] = moved_by(centroids[e], sign * part * deviation, most);
    }
  }
  return centroids;
}

/// (1 - a) u + a v with random v that sums to 1, rounded to T.
template <typename T>
std::vector<T> StartSequence<T>::mixed_memberships(std::size_t i) const {
  constexpr double kShare = 0.3;
  constexpr std::size_t kRows = 4096;
  const std::size_t n = problem_.n;
  const std::size_t k = problem_.k;
  const SecretStream random(secret_, purpose("memberships", i));
  std::vector<T> mixed(n * k);
  datasets::parallel_pieces(n, kRows, [&](std::size_t begin, std::size_t end) {
    std::vector<double> noise(k);
    for (std::size_t row = begin; row < end; ++row) {
      double sum = 0.0;
      double of_noise = 0.0;
      for (std::size_t j = 0; j < k; ++j) {
        noise[j] = 0x1p-53 + random.uniform_at(row * k + j);
        of_noise += noise[j];
        sum += static_cast<double>(own_[row * k + j]);
      }
      for (std::size_t j = 0; j < k; ++j) {
        const double own =
            sum > 0.0 ? static_cast<double>(own_[row * k + j]) / sum : 1.0 / static_cast<double>(k);
        mixed[row * k + j] = static_cast<T>((1.0 - kShare) * own + kShare * noise[j] / of_noise);
      }
    }
  });
  return mixed;
}

std::vector<std::size_t> judged_positions(std::uint64_t secret, const std::string& hash,
                                          std::size_t samples) {
  if (samples <= 2) {
    return samples == 2 ? std::vector<std::size_t>{0, 1} : std::vector<std::size_t>{0};
  }
  SecretStream random(secret, "judged positions of " + hash);
  const std::size_t one = random.index(samples);
  const std::size_t other = (one + 1 + random.index(samples - 1)) % samples;
  return {std::min(one, other), std::max(one, other)};
}

std::uint64_t judging_number(std::uint64_t secret, const std::string& hash, std::size_t i) {
  return SecretStream(secret, fmt::format("judging number {} of {}", i, hash)).next();
}

template class StartSequence<float>;
template class StartSequence<double>;

} // namespace clusterbench
