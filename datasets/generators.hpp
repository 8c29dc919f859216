// Synthetic points, the same bits on every run.
//
// make_classification and make_blobs follow scikit-learn 1.2 draw by draw: for the same arguments
// labels, permutations and everything before the matrix products are equal bit for bit. The
// products sum from the first term to the last without fused multiply-add (the order of the
// reference BLAS); another BLAS differs by a few units in the last place. Their rows cannot be made
// apart: how many words of the stream a normal deviate takes depends on the words, and the rows are
// shuffled at the end.
// Source: scikit-learn, sklearn/datasets/_samples_generator.py and sklearn/utils/_random.pyx.
#pragma once

#include "datasets/array.hpp"
#include "datasets/random_state.hpp"
#include "datasets/row_range.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace clusterbench::datasets {

/// Part of every cached file's key: raise it when any generator's output changes.
inline constexpr int kGeneratorVersion = 1;

/// `count` distinct integers of [0, population), in the order that
/// sklearn.utils.random.sample_without_replacement(population, count) gives them.
/// Throws InputError when count > population.
std::vector<std::int64_t> sample_without_replacement(std::int64_t population, std::int64_t count,
                                                     RandomState& random);

/// The arguments of sklearn.datasets.make_classification, with its defaults.
struct ClassificationOptions {
  std::size_t n_samples = 100;
  std::size_t n_features = 20;
  std::size_t n_informative = 2;
  std::size_t n_redundant = 2;
  std::size_t n_repeated = 0;
  std::size_t n_classes = 2;
  std::size_t n_clusters_per_class = 2;
  std::vector<double> weights; // [n_classes], [n_classes - 1], or empty: balanced
  double flip_y = 0.01;
  double class_sep = 1.0;
  bool hypercube = true;
  std::vector<double> shift{0.0}; // one for all, [n_features], or empty: drawn at random
  std::vector<double> scale{1.0}; // the same
  bool shuffle = true;
  std::uint32_t random_state = 0;
};

/// Clusters on the corners of a hypercube, with redundant, repeated and noise features.
/// [n_samples, n_features] f64 with labels. Throws InputError for arguments that do not fit.
Array make_classification(const ClassificationOptions& options);

/// The arguments of sklearn.datasets.make_blobs, with its defaults.
struct BlobsOptions {
  std::size_t n_samples = 100;
  std::vector<std::size_t> samples_per_center; // instead of n_samples, when not empty
  std::size_t n_features = 2;
  std::size_t n_centers = 3;
  std::vector<double> centers;          // [n_centers, n_features], or empty: drawn at random
  std::vector<double> cluster_std{1.0}; // one for all, or [n_centers]
  std::array<double, 2> center_box{-10.0, 10.0};
  bool shuffle = true;
  std::uint32_t random_state = 0;
};

/// Isotropic Gaussian blobs. [n, n_features] f64 with labels. Throws InputError.
Array make_blobs(const BlobsOptions& options);

struct UniformOptions {
  std::size_t n = 0;
  std::size_t d = 0;
  double low = 0.0;
  double high = 1.0;
  std::uint32_t seed = 0;
  ElementType type = ElementType::f64;
};

/// RandomState(seed).uniform(low, high, (n, d)): uniform in [low, high)^d, no structure at all.
/// [n, d] of `type`, rounded from f64, made on all cores. Throws InputError.
/// Of `rows` alone it gives the bits that they have in the whole.
Array make_uniform(const UniformOptions& options, RowRange rows = {});

struct MixtureOptions {
  std::size_t n = 0;
  std::size_t d = 0;
  std::size_t components = 0;
  double std = 0.0;
  std::uint32_t seed = 0;
  double offset = 0.0;    ///< added to every value
  bool unit_norm = false; ///< every row divided by its length, as embeddings often are
  ElementType type = ElementType::f64;
};

/// A Gaussian mixture of equal weights around standard-normal centres, made on all cores:
///     centres = RandomState([seed, 0]).standard_normal((components, d))
/// and for rows 4096 b ... 4096 b + m - 1, with random = RandomState([seed, 1 + b]):
///     labels = random.randint(components, size=m)
///     points = centres[labels] + std * random.standard_normal((m, d))
/// [n, d] of `type`, rounded from f64, with labels. Throws InputError.
/// Of `rows` alone it gives the bits that they have in the whole.
Array make_mixture(const MixtureOptions& options, RowRange rows = {});

struct ColourMomentsOptions {
  std::size_t n = 0;
  std::uint32_t seed = 0;
};

/// Colour moments of n generated image patches of 16 x 16 pixels: mean, standard deviation and
/// skewness of the red, green and blue channel, in units of 8-bit intensity. [n, 9] f64, columns
/// mean r g b, deviation r g b, skewness r g b; no labels. See colour_moments.cpp.
/// Throws InputError. Of `rows` alone it gives the bits that they have in the whole.
Array make_colour_moments(const ColourMomentsOptions& options, RowRange rows = {});

} // namespace clusterbench::datasets
