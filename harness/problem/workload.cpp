#include "harness/problem/workload.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "datasets/npy.hpp"
#include "datasets/parallel.hpp"
#include "datasets/sha256.hpp"
#include "harness/problem/initial_state.hpp"
#include "harness/problem/point_weights.hpp"
#include "harness/problem/problem_key.hpp"
#include "harness/system/available_memory.hpp"
#include "harness/system/process.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace clusterbench {
namespace {

using datasets::InputError;

template <typename T>
void copy_rounded(const datasets::Array& from, std::span<T> to) {
  constexpr std::size_t kPiece = std::size_t{1} << 22;
  const auto copy = [&](auto values) {
    datasets::parallel_pieces(to.size(), kPiece, [&](std::size_t begin, std::size_t end) {
      std::ranges::transform(values.subspan(begin, end - begin), &to[begin],
                             [](auto value) { return static_cast<T>(value); });
    });
  };
  if (from.type() == datasets::ElementType::f32) {
    copy(from.f32());
  } else {
    copy(from.f64());
  }
}

// What needs no data.
void check_spec(const ProblemSpec& spec) {
  if (spec.k == 0) {
    throw InputError("--k: at least one cluster is needed");
  }
  if (spec.family == Family::fcm && !(spec.fuzzifier > 1.0 && std::isfinite(spec.fuzzifier))) {
    throw InputError(fmt::format("--fuzzifier {}: it must be greater than 1", spec.fuzzifier));
  }
  if (spec.family == Family::fcm && !spec.weights.empty()) {
    throw InputError(
        fmt::format("--weights {}: no variant of fuzzy c-means takes weights yet; they "
                    "belong to --family kmeans",
                    spec.weights));
  }
}

std::size_t rows_taken(const ProblemSpec& spec, std::size_t rows) {
  if (spec.take > rows) {
    throw InputError(fmt::format("--take {}: {} has only {} rows", spec.take, spec.data, rows));
  }
  return spec.take == 0 ? rows : spec.take;
}

void check_clusters(const ProblemSpec& spec, std::size_t n) {
  if (spec.k > n) {
    throw InputError(fmt::format("--k {}: {} has only {} points", spec.k, spec.data, n));
  }
}

// The square of the distance between two points must be a number of type T.
template <typename T>
void check_magnitude(std::span<const T> values, std::size_t d, const std::string& name) {
  const T most = std::sqrt(std::numeric_limits<T>::max() / static_cast<T>(4 * d));
  const std::size_t index = datasets::first_index_where(
      values.size(), [&](std::size_t i) { return !(std::abs(values[i]) <= most); });
  if (index < values.size()) {
    const bool is_float = std::is_same_v<T, float>;
    throw InputError(
        fmt::format("{}: row {}, column {} is too large: squared distances would exceed {}; {}",
                    name, index / d, index % d, is_float ? "float32" : "float64",
                    is_float ? "use --precision f64 or scale the data" : "scale the data"));
  }
}

// And the square of a distance that is the square root of epsilon times the largest value must be a
// normal number: those beneath have fewer digits, or none. Values as they were before they were
// rounded to T, which may have made zeros of all of them.
template <typename T>
void check_not_tiny(const auto& values, const std::string& name) {
  const bool is_float = std::is_same_v<T, float>;
  const double least = std::sqrt(static_cast<double>(std::numeric_limits<T>::min()) /
                                 static_cast<double>(std::numeric_limits<T>::epsilon()));
  double largest = 0.0;
  for (const auto value : values) {
    largest = std::max(largest, std::abs(static_cast<double>(value)));
    if (largest >= least) {
      return; // nearly always at the first value
    }
  }
  if (largest > 0.0) {
    throw InputError(fmt::format(
        "{}: all values are too small: the largest is {:.3g}, and squared distances keep their "
        "digits in {} from {:.2g} on; {}",
        name, largest, is_float ? "float32" : "float64", least,
        is_float ? "use --precision f64 or scale the data" : "scale the data"));
  }
}

template <typename T>
void check_not_tiny(const datasets::Array& array, const std::string& name) {
  if (array.type() == datasets::ElementType::f32) {
    check_not_tiny<T>(array.f32(), name);
  } else {
    check_not_tiny<T>(array.f64(), name);
  }
}

template <typename T>
std::string key_of(const PointSet& points) {
  Problem<T> problem;
  problem.n = points.n;
  problem.d = points.d;
  problem.points = points.values<T>();
  problem.weights = points.weights.as<T>();
  return points_key(problem);
}

std::size_t bytes_of(const PointSet& points) {
  return points.memory.bytes() + points.weights.bytes();
}

// A file is read whole. The kernel would rather kill processes than refuse: ask first.
void check_memory_for(const std::string& data) {
  std::error_code is_no_file;
  const std::uintmax_t bytes = std::filesystem::file_size(data, is_no_file);
  if (const std::size_t available = available_memory_bytes(); !is_no_file && bytes > available) {
    throw OutOfMemory(fmt::format("{}: the file has {} bytes, {} bytes of memory are available",
                                  data, bytes, available));
  }
}

std::size_t element_size(Precision precision) {
  return precision == Precision::f32 ? sizeof(float) : sizeof(double);
}

// scikit-learn's rule: the tolerance is relative to the mean variance of the features.
template <typename T>
double mean_feature_variance(std::span<const T> points, std::size_t n, std::size_t d) {
  std::vector<double> mean(d, 0.0);
  std::vector<double> square(d, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < d; ++j) {
      mean[j] += static_cast<double>(points[i * d + j]);
    }
  }
  for (double& value : mean) {
    value /= static_cast<double>(n);
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < d; ++j) {
      const double centred = static_cast<double>(points[i * d + j]) - mean[j];
      square[j] += centred * centred;
    }
  }
  double sum = 0.0;
  for (const double value : square) {
    sum += value / static_cast<double>(n);
  }
  return sum / static_cast<double>(d);
}

template <typename T>
void fill_initial_state(Workload& work) {
  const InitialState<T> state = make_initial_state<T>(work.spec, work.points->values<T>(), work.n,
                                                      work.d, work.points->weights.as<T>());
  if (work.spec.init.kind == InitSpec::Kind::file) {
    check_magnitude<T>(state.values, state.is_memberships ? work.k : work.d, work.spec.init.file);
  }
  work.starts_from_memberships = state.is_memberships;
  work.initial_rows = state.rows;
  work.initial = SharedMemory("initial state", state.values.size() * sizeof(T));
  std::ranges::copy(state.values, work.initial.as<T>().begin());
  work.initial.seal();
  if (work.stop.kind == StopRule::Kind::shift) {
    work.stop.threshold *= mean_feature_variance(work.points->values<T>(), work.n, work.d);
  }
}

} // namespace

template <typename T>
Problem<T> Workload::problem(int threads) const {
  Problem<T> problem;
  problem.n = n;
  problem.d = d;
  problem.k = k;
  problem.points = points->values<T>();
  problem.weights = points->weights.as<T>();
  (starts_from_memberships ? problem.memberships : problem.centroids) = initial.as<T>();
  problem.stop = stop;
  problem.fuzzifier = spec.fuzzifier;
  problem.threads = threads;
  return problem;
}

template Problem<float> Workload::problem(int) const;
template Problem<double> Workload::problem(int) const;

std::shared_ptr<const PointSet> WorkloadBuilder::points(const ProblemSpec& spec,
                                                        Precision precision) {
  const std::string key = fmt::format("{} {} {} {} {}", spec.data, spec.last_column_is_label,
                                      spec.take, to_string(precision), spec.weights);
  for (const Cached& cached : cache_) {
    if (cached.key == key) {
      return cached.points;
    }
  }
  if (memory_limit_ > 0) {
    cache_.clear(); // one file at a time
    std::shared_ptr<const PointSet> points = points_in_file(spec, precision);
    check_unchanged("points", spec.data, points->sha256);
    cache_.push_back({key, points});
    return points;
  }
  check_memory_for(spec.data);
  const datasets::ReadOptions options{.last_column_is_label = spec.last_column_is_label};
  const datasets::Resolved resolved = datasets::resolve(spec.data, options);
  check_unchanged("points", spec.data, resolved.sha256);
  // The same bytes in another shape or type are other points.
  const std::string identity = fmt::format("{} {} {}x{}", resolved.sha256, name_of(resolved.type),
                                           resolved.rows, resolved.cols);
  const auto start = std::chrono::steady_clock::now();
  const datasets::Array array = datasets::load(resolved, options);
  datasets::check_points(array, spec.data);
  auto points = std::make_shared<PointSet>();
  points->sha256 = resolved.sha256;
  points->identity = identity;
  points->conversion = resolved.file == spec.data ? datasets::conversion_of(resolved.file) : "";
  points->n = rows_taken(spec, array.rows());
  points->d = array.cols();
  points->memory = SharedMemory("points", points->n * points->d * element_size(precision));
  if (precision == Precision::f32) {
    copy_rounded(array, points->memory.as<float>());
    check_magnitude<float>(points->memory.as<float>(), points->d, spec.data);
    check_not_tiny<float>(array, spec.data);
    add_weights<float>(*points, spec, array.rows());
  } else {
    copy_rounded(array, points->memory.as<double>());
    check_magnitude<double>(points->memory.as<double>(), points->d, spec.data);
    check_not_tiny<double>(array, spec.data);
    add_weights<double>(*points, spec, array.rows());
  }
  points->key = precision == Precision::f32 ? key_of<float>(*points) : key_of<double>(*points);
  points->memory.seal(); // a variant that could change them would change those of all others
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  points->load_ms = elapsed.count();
  if (resolved.file == spec.data) { // a user's file, which has been read twice
    check_unchanged("points", spec.data, datasets::sha256_hex(array.bytes()));
  }
  keep(key, points);
  return points;
}

// The same checks on a file that stays where it is.
std::shared_ptr<PointSet> WorkloadBuilder::points_in_file(const ProblemSpec& spec,
                                                          Precision precision) const {
  constexpr std::size_t kShareOfFile = 8; // the rest is for answers, the judge and the worker
  if (!spec.weights.empty()) {
    throw InputError("--weights: not with --memory, which brings nothing but points from a file");
  }
  const auto start = std::chrono::steady_clock::now();
  const std::size_t share = memory_limit_ / kShareOfFile;
  const datasets::KeptFile kept = datasets::kept_file(spec.data, share);
  auto points = std::make_shared<PointSet>();
  auto file = std::make_unique<datasets::FileInPlace>(kept.file, share);
  const datasets::PointsLayout layout = datasets::layout_of(file->bytes(), kept.file);
  const bool is_float = layout.type == datasets::ElementType::f32;
  if (is_float != (precision == Precision::f32)) {
    throw InputError(
        fmt::format("--memory: {} holds {}, and stays as it is: --precision {} is needed",
                    spec.data, is_float ? "float32" : "float64", name_of(layout.type)));
  }
  points->n = rows_taken(spec, layout.rows);
  points->d = layout.cols;
  points->offset = layout.offset;
  points->generated = datasets::makes_rows_alone(spec.data) ? spec.data : "";
  const std::span<const std::byte> content =
      file->bytes().subspan(layout.offset, layout.rows * layout.cols * element_size(precision));
  points->sha256 = datasets::sha256_hex(content);
  points->identity =
      fmt::format("{} {} {}x{}", points->sha256, name_of(layout.type), layout.rows, layout.cols);
  points->file = std::move(file);
  const auto check_values = [&]<typename T>(std::span<const T> values) {
    datasets::check_points(values, points->d, spec.data);
    check_magnitude(values, points->d, spec.data);
    check_not_tiny<T>(values, spec.data);
    points->key = key_of<T>(*points);
  };
  if (is_float) {
    check_values(points->values<float>());
  } else {
    check_values(points->values<double>());
  }
  points->file->check();
  if (!kept.sha256.empty() && kept.sha256 != points->sha256) {
    throw InputError(fmt::format("{}: {} is damaged; `clusterbench data {}` makes it anew",
                                 spec.data, kept.file.string(), spec.data));
  }
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  points->load_ms = elapsed.count();
  return points;
}

template <typename T>
void WorkloadBuilder::add_weights(PointSet& points, const ProblemSpec& spec, std::size_t rows) {
  if (spec.weights.empty()) {
    return;
  }
  check_memory_for(spec.weights);
  const PointWeights<T> weights(spec.weights, rows, points.n, points.memory.as<T>());
  check_unchanged("weights", spec.weights, weights.sha256);
  points.weights = SharedMemory("weights", weights.values.size() * sizeof(T));
  std::ranges::copy(weights.values, points.weights.as<T>().begin());
  points.weights.seal();
  points.weights_sha256 = weights.sha256;
  points.weights_conversion = datasets::conversion_of(spec.weights);
  points.identity += fmt::format(", weights {} {}", weights.sha256, weights.type);
}

// One campaign is about one dataset, whatever happens to the file meanwhile. A file that is read as
// two things has two hashes: of an array's values, and of the file.
void WorkloadBuilder::check_unchanged(const std::string& what, const std::string& file,
                                      const std::string& sha256) {
  if (sha256_.try_emplace({what, file}, sha256).first->second != sha256) {
    throw InputError(fmt::format("{}: the file has changed since it was read first", file));
  }
}

// Campaigns shuffle their cells: small sets are all kept. Two of any size are, for a table that
// alternates precisions; beyond these the oldest go, which bounds the memory.
void WorkloadBuilder::keep(const std::string& key, std::shared_ptr<const PointSet> points) {
  constexpr std::size_t kAlways = 2;
  constexpr std::size_t kMostBytes = std::size_t{512} << 20;
  cache_.push_back({key, std::move(points)});
  std::size_t bytes = 0;
  for (const Cached& cached : cache_) {
    bytes += bytes_of(*cached.points);
  }
  while (cache_.size() > kAlways && bytes > kMostBytes) {
    bytes -= bytes_of(*cache_.front().points);
    cache_.erase(cache_.begin());
  }
}

Workload WorkloadBuilder::build(const ProblemSpec& spec, Precision precision) {
  check_spec(spec);
  const EndsAtOnce while_data_are_made;
  Workload work;
  work.spec = spec;
  work.precision = precision;
  work.points = points(spec, precision);
  work.n = work.points->n;
  work.d = work.points->d;
  work.k = spec.k;
  work.stop = spec.stop;
  check_clusters(spec, work.n);
  if (precision == Precision::f32) {
    fill_initial_state<float>(work);
  } else {
    fill_initial_state<double>(work);
  }
  const std::string init_sha256 =
      spec.init.kind == InitSpec::Kind::file ? datasets::sha256_file(spec.init.file) : "";
  if (!init_sha256.empty()) {
    check_unchanged("initial state", spec.init.file, init_sha256);
  }
  work.hash = problem_hash(spec, work.points->identity, init_sha256, precision);
  return work;
}

void WorkloadBuilder::check(const ProblemSpec& spec, Precision precision) {
  const auto recipe = datasets::parse_spec(spec.data);
  const double bytes = recipe
                           ? static_cast<double>(recipe->rows) * static_cast<double>(recipe->cols) *
                                 static_cast<double>(sizeof(double))
                           : 0.0;
  constexpr double kLarge = 128.0 * 1024 * 1024; // less is made in a moment
  const bool is_plain =
      spec.weights.empty() && !spec.last_column_is_label &&
      (spec.init.kind == InitSpec::Kind::first || spec.init.kind == InitSpec::Kind::random ||
       spec.init.kind == InitSpec::Kind::kmeans_plus_plus);
  if (memory_limit_ > 0 || bytes < kLarge || !is_plain ||
      bytes > static_cast<double>(available_memory_bytes())) { // what makes them says what is wrong
    build(spec, precision);
    return;
  }
  check_spec(spec);
  check_clusters(spec, rows_taken(spec, recipe->rows));
}

} // namespace clusterbench
