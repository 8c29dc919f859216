#include "datasets/generators.hpp"

#include "datasets/errors.hpp"
#include "datasets/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace clusterbench::datasets {
namespace {

void require(bool condition, std::string_view message) {
  if (!condition)
    throw InputError(std::string(message));
}

/// Of a dataset of which only some rows may be made: n d must be a number all the same.
void checked_size(std::size_t n, std::size_t d, std::string_view what) {
  require(d == 0 || n <= std::numeric_limits<std::size_t>::max() / (2 * d),
          fmt::format("{}: {} x {} is too large", what, n, d));
}

/// `count` distinct corners of the unit cube in `dimensions` dimensions, [count, dimensions] of 0
/// and 1. A corner is the binary digits of a sampled integer; beyond 30 digits plain random bits
/// come first, since those alone are then distinct enough.
std::vector<double> cube_corners(std::size_t count, std::size_t dimensions, RandomState& random) {
  constexpr std::size_t kMostDigits = 30;
  const std::size_t digits = std::min(dimensions, kMostDigits);
  const std::size_t extra = dimensions - digits;
  const std::vector<std::int64_t> bits = random.randint(0, 2, count * extra);
  const std::vector<std::int64_t> corners = sample_without_replacement(
      std::int64_t{1} << digits, static_cast<std::int64_t>(count), random);
  std::vector<double> out(count * dimensions);
  for (std::size_t i = 0; i < count; ++i) {
    double* row = &out[i * dimensions];
    for (std::size_t j = 0; j < extra; ++j)
      row[j] = static_cast<double>(bits[i * extra + j]);
    for (std::size_t j = 0; j < digits; ++j)
      row[extra + j] = static_cast<double>(corners[i] >> (digits - 1 - j) & 1);
  }
  return out;
}

/// [rows, cols] uniform in [-1, 1).
std::vector<double> random_matrix(std::size_t rows, std::size_t cols, RandomState& random) {
  std::vector<double> out = random.rand(rows * cols);
  for (double& value : out)
    value = 2.0 * value - 1.0;
  return out;
}

/// out [cols] = row [inner] * matrix [inner, cols], summed from the first term to the last.
void multiply(const double* row, std::span<const double> matrix, std::size_t inner,
              std::size_t cols, double* out) {
  std::fill_n(out, cols, 0.0);
  for (std::size_t i = 0; i < inner; ++i)
    for (std::size_t j = 0; j < cols; ++j)
      out[j] += row[i] * matrix[i * cols + j];
}

/// `values`, repeated when there is only one.
std::vector<double> one_or_all(std::vector<double> values, std::size_t count,
                               std::string_view what) {
  if (values.size() == 1)
    values.resize(count, values[0]);
  require(values.size() == count,
          fmt::format("{}: one value or {} expected, {} given", what, count, values.size()));
  return values;
}

/// Rows and columns of `points` and its labels taken in the given orders.
Array reorder(const Array& points, std::span<const std::int64_t> rows,
              std::span<const std::int64_t> cols) {
  const std::size_t d = points.cols();
  Array out = Array::allocate(ElementType::f64, points.rows(), d, "shuffled points");
  const std::span<const double> from = points.f64();
  const std::span<double> to = out.writable_f64();
  constexpr std::size_t kRows = 8192;
  parallel_pieces(rows.size(), kRows, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const double* row = &from[static_cast<std::size_t>(rows[i]) * d];
      for (std::size_t j = 0; j < d; ++j)
        to[i * d + j] = row[cols[j]];
    }
  });
  out.labels.emplace(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    (*out.labels)[i] = (*points.labels)[static_cast<std::size_t>(rows[i])];
  return out;
}

} // namespace

RowRange RowRange::of(std::size_t n) const {
  const std::size_t counted = count == kToTheLast && first <= n ? n - first : count;
  require(
      first <= n && counted <= n - first,
      counted > 0 && counted - 1 > kToTheLast - first // their last has no number
          ? fmt::format("there are no {} rows from row {} on of {}", counted, first, n)
          : fmt::format("there are no rows {} to {} of {}", first,
                        counted == kToTheLast ? "the last" : fmt::format("{}", first + counted - 1),
                        n));
  return {first, counted};
}

std::vector<std::int64_t> sample_without_replacement(std::int64_t population, std::int64_t count,
                                                     RandomState& random) {
  require(population >= 0 && count >= 0 && count <= population,
          fmt::format("sample_without_replacement: {} of {}", count, population));
  const double ratio =
      population == 0 ? 1.0 : static_cast<double>(count) / static_cast<double>(population);
  std::vector<std::int64_t> out;
  if (ratio > 0.01 && ratio < 0.99) {
    out = random.permutation(static_cast<std::size_t>(population));
    out.resize(static_cast<std::size_t>(count));
  } else if (ratio < 0.2) { // few of many: draw until new
    std::unordered_set<std::int64_t> selected;
    while (out.size() < static_cast<std::size_t>(count))
      if (const std::int64_t candidate = random.randint(0, population);
          selected.insert(candidate).second)
        out.push_back(candidate);
  } else { // nearly all: reservoir sampling
    out.resize(static_cast<std::size_t>(count));
    std::iota(out.begin(), out.end(), 0);
    for (std::int64_t i = count; i < population; ++i)
      if (const std::int64_t slot = random.randint(0, i + 1); slot < count)
        out[static_cast<std::size_t>(slot)] = i;
  }
  return out;
}

Array make_classification(const ClassificationOptions& o) {
  const std::size_t n = o.n_samples;
  const std::size_t d = o.n_features;
  const std::size_t n_clusters = o.n_classes * o.n_clusters_per_class;
  require(o.n_classes > 0 && o.n_clusters_per_class > 0, "make_classification: no classes");
  require(o.n_informative + o.n_redundant + o.n_repeated <= d,
          "make_classification: more informative, redundant and repeated features than features");
  require(static_cast<double>(o.n_informative) >= std::log2(static_cast<double>(n_clusters)),
          fmt::format("make_classification: {} clusters do not fit on the corners of a cube of {} "
                      "informative dimensions",
                      n_clusters, o.n_informative));
  std::vector<double> weights = o.weights;
  if (weights.empty())
    weights.assign(o.n_classes, 1.0 / static_cast<double>(o.n_classes));
  else if (weights.size() + 1 == o.n_classes)
    weights.push_back(1.0 - std::accumulate(weights.begin(), weights.end(), 0.0));
  require(weights.size() == o.n_classes,
          "make_classification: weights do not match the number of classes");
  for (const double weight : weights)
    require(weight >= 0 && weight <= 1, "make_classification: a weight is not in [0, 1]");

  // Samples per cluster by weight; what rounding left over goes to the first clusters.
  std::vector<std::size_t> sizes(n_clusters);
  for (std::size_t k = 0; k < n_clusters; ++k)
    sizes[k] = static_cast<std::size_t>(static_cast<double>(n) * weights[k % o.n_classes] /
                                        static_cast<double>(o.n_clusters_per_class));
  for (std::size_t i = 0, sum = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
       sum < n; ++i, ++sum)
    ++sizes[i % n_clusters];

  RandomState random(o.random_state);
  Array points = Array::allocate(ElementType::f64, n, d, "make_classification");
  const std::span<double> x = points.writable_f64();
  points.labels.emplace(n);
  std::vector<std::int64_t>& y = *points.labels;

  const std::size_t inner = o.n_informative;
  std::vector<double> centroids = cube_corners(n_clusters, inner, random);
  for (double& value : centroids) {
    value *= 2 * o.class_sep;
    value -= o.class_sep;
  }
  if (!o.hypercube) { // a random polytope: scale every corner, then every axis
    for (std::size_t k = 0; k < n_clusters; ++k)
      for (const double factor = random.random_sample();
           double& value : std::span(centroids).subspan(k * inner, inner))
        value *= factor;
    for (std::size_t j = 0; j < inner; ++j) {
      const double factor = random.random_sample();
      for (std::size_t k = 0; k < n_clusters; ++k)
        centroids[k * inner + j] *= factor;
    }
  }

  // Informative features: one normal cloud per cluster, given a random covariance, then moved.
  for (std::size_t i = 0; i < n; ++i)
    random.standard_normal(x.subspan(i * d, inner));
  std::vector<double> row(inner);
  for (std::size_t k = 0, start = 0; k < n_clusters; ++k) {
    const std::size_t stop = std::min(n, start + sizes[k]);
    const std::vector<double> covariance = random_matrix(inner, inner, random);
    for (std::size_t i = start; i < stop; ++i) {
      y[i] = static_cast<std::int64_t>(k % o.n_classes);
      std::copy_n(&x[i * d], inner, row.begin());
      multiply(row.data(), covariance, inner, inner, &x[i * d]);
      for (std::size_t j = 0; j < inner; ++j)
        x[i * d + j] += centroids[k * inner + j];
    }
    start = stop;
  }

  if (o.n_redundant > 0) {
    const std::vector<double> combination = random_matrix(inner, o.n_redundant, random);
    for (std::size_t i = 0; i < n; ++i)
      multiply(&x[i * d], combination, inner, o.n_redundant, &x[i * d + inner]);
  }

  std::size_t useful = inner + o.n_redundant;
  if (o.n_repeated > 0) {
    std::vector<std::size_t> sources(o.n_repeated);
    for (std::size_t& source : sources)
      source =
          static_cast<std::size_t>(static_cast<double>(useful - 1) * random.random_sample() + 0.5);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < o.n_repeated; ++j)
        x[i * d + useful + j] = x[i * d + sources[j]];
    useful += o.n_repeated;
  }

  for (std::size_t i = 0; i < n && useful < d; ++i) // the rest is noise
    random.standard_normal(x.subspan(i * d + useful, d - useful));

  if (o.flip_y >= 0) {
    std::vector<std::size_t> flipped;
    for (std::size_t i = 0; i < n; ++i)
      if (random.random_sample() < o.flip_y)
        flipped.push_back(i);
    for (const std::size_t i : flipped)
      y[i] = random.randint(0, static_cast<std::int64_t>(o.n_classes));
  }

  std::vector<double> shift = o.shift;
  if (shift.empty())
    for (const double value : random_matrix(d, 1, random))
      shift.push_back(value * o.class_sep);
  std::vector<double> scale = o.scale;
  if (scale.empty())
    for (const double value : random.rand(d))
      scale.push_back(1.0 + 100.0 * value);
  shift = one_or_all(std::move(shift), d, "make_classification: shift");
  scale = one_or_all(std::move(scale), d, "make_classification: scale");
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < d; ++j)
      x[i * d + j] = (x[i * d + j] + shift[j]) * scale[j];

  if (!o.shuffle)
    return points;
  const std::vector<std::int64_t> rows = random.permutation(n);
  const std::vector<std::int64_t> cols = random.permutation(d);
  return reorder(points, rows, cols);
}

Array make_blobs(const BlobsOptions& o) {
  const bool counted = o.samples_per_center.empty();
  const std::size_t d = o.n_features;
  const std::size_t n_centers = counted ? o.n_centers : o.samples_per_center.size();
  require(n_centers > 0, "make_blobs: no centers");
  require(o.centers.empty() || o.centers.size() == n_centers * d,
          fmt::format("make_blobs: centers must be {} x {}", n_centers, d));
  require(o.center_box[0] <= o.center_box[1], "make_blobs: center_box is empty");

  RandomState random(o.random_state);
  std::vector<double> centers = o.centers;
  if (centers.empty()) {
    centers.resize(n_centers * d);
    random.uniform(o.center_box[0], o.center_box[1], centers);
  }
  const std::vector<double> deviations =
      one_or_all(o.cluster_std, n_centers, "make_blobs: cluster_std");
  std::vector<std::size_t> sizes = o.samples_per_center;
  for (std::size_t k = 0; counted && k < n_centers; ++k)
    sizes.push_back(o.n_samples / n_centers + (k < o.n_samples % n_centers ? 1 : 0));

  const std::size_t n = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  Array points = Array::allocate(ElementType::f64, n, d, "make_blobs");
  double* x = points.writable_f64().data();
  points.labels.emplace();
  for (std::size_t k = 0; k < n_centers; ++k) {
    require(deviations[k] >= 0, "make_blobs: a negative cluster_std");
    for (std::size_t i = 0; i < sizes[k]; ++i) {
      for (std::size_t j = 0; j < d; ++j)
        *x++ = centers[k * d + j] + deviations[k] * random.standard_normal();
      points.labels->push_back(static_cast<std::int64_t>(k));
    }
  }
  if (!o.shuffle)
    return points;
  std::vector<std::int64_t> columns(d); // stay as they are
  std::iota(columns.begin(), columns.end(), 0);
  const std::vector<std::int64_t> rows = random.permutation(n);
  return reorder(points, rows, columns);
}

Array make_uniform(const UniformOptions& o, RowRange range) {
  require(o.low < o.high, "uniform: low must be less than high");
  const RowRange rows = range.of(o.n);
  checked_size(o.n, o.d, "uniform");
  Array points = Array::allocate(o.type, rows.count, o.d, "uniform");
  // A value takes two words of the one stream, so a block knows where its own begin.
  constexpr std::size_t kValues = std::size_t{1} << 22;
  parallel_pieces(points.size(), kValues, [&](std::size_t first, std::size_t end) {
    const std::size_t count = end - first;
    RandomState random(o.seed);
    random.discard(2 * (std::uint64_t{rows.first} * o.d + first));
    if (o.type == ElementType::f64)
      random.uniform(o.low, o.high, points.writable_f64().subspan(first, count));
    else
      for (float& value : points.writable_f32().subspan(first, count))
        value = static_cast<float>(random.uniform(o.low, o.high));
  });
  return points;
}

Array make_mixture(const MixtureOptions& o, RowRange range) {
  require(o.components > 0, "mixture: no components");
  require(o.std >= 0 && std::isfinite(o.std), "mixture: std must be finite and not negative");
  const RowRange wanted = range.of(o.n);
  const std::size_t end = wanted.first + wanted.count;
  checked_size(o.n, o.d, "mixture");
  Array points = Array::allocate(o.type, wanted.count, o.d, "mixture");
  points.labels.emplace(wanted.count);
  checked_bytes(ElementType::f64, o.components, o.d, "mixture centres");
  const std::vector<double> centres =
      RandomState(std::array<std::uint32_t, 2>{o.seed, 0}).randn(o.components * o.d);

  constexpr std::size_t kRows = 4096; // a stream of its own for every block of rows
  const std::size_t first_block = wanted.first / kRows;
  const std::size_t end_block = wanted.count == 0 ? first_block : (end + kRows - 1) / kRows;
  require(end_block < std::numeric_limits<std::uint32_t>::max(),
          "mixture: more rows than it has streams for");
  parallel_blocks(end_block - first_block, [&](std::size_t index) {
    const std::size_t block = first_block + index;
    const std::size_t first = block * kRows;
    // all of the block, or its stream is another
    const std::size_t rows = std::min(kRows, o.n - first);
    RandomState random(std::array<std::uint32_t, 2>{o.seed, static_cast<std::uint32_t>(1 + block)});
    const std::vector<std::int64_t> labels =
        random.randint(0, static_cast<std::int64_t>(o.components), rows);
    std::vector<double> row(o.d);
    const auto fill = [&]<class T>(T* out) {
      for (std::size_t i = 0; i < rows && first + i < end; ++i) {
        const double* centre = &centres[static_cast<std::size_t>(labels[i]) * o.d];
        double squares = 0.0;
        for (std::size_t j = 0; j < o.d; ++j) {
          row[j] = centre[j] + o.std * random.standard_normal() + o.offset;
          squares += row[j] * row[j];
        }
        if (first + i < wanted.first)
          continue;
        const std::size_t at = first + i - wanted.first;
        (*points.labels)[at] = labels[i];
        const double length = o.unit_norm && squares > 0.0 ? std::sqrt(squares) : 1.0;
        for (std::size_t j = 0; j < o.d; ++j)
          out[at * o.d + j] = static_cast<T>(row[j] / length);
      }
    };
    if (o.type == ElementType::f64)
      fill(points.writable_f64().data());
    else
      fill(points.writable_f32().data());
  });
  return points;
}

} // namespace clusterbench::datasets
