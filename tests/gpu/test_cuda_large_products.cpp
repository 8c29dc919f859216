// n k = 2^33 with two features: more distances, and more memberships, than 32 bits count, of points
// that are few gigabytes. Every variant for one GPU, through the contract.
//
// The right answer is known in closed form: clusters lie on a lattice, and the points repeat with a
// short period, each quarter of the rows shifted a little. So all labels are compared, and a sum
// that lacks some of the rows is seen. Of memberships, only those of some rows come to the host.
//
// Skipped where there is no GPU, or too little memory on it.
#include "harness/machine/nvml.hpp"
#include "tests/gpu/run_on_gpu.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace clusterbench {
namespace {

constexpr std::size_t kProduct = std::size_t{1} << 33; // n k
constexpr std::size_t kFeatures = 2, kPeriod = std::size_t{1} << 14, kQuarters = 4;
constexpr double kShift = 0.1;   // from one quarter to the next
constexpr double kSpacing = 4.0; // of the lattice: no point is nearer to another cluster's start

/// Points of one period and quarter, and what is right for them.
class Lattice {
public:
  explicit Lattice(std::size_t k) : k_(k), columns_(std::size_t{1} << (std::bit_width(k) / 2)) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> near(-0.6f, 0.6f);
    for (std::size_t i = 0; i < kPeriod; ++i) {
      const std::size_t label = i * 5 % k; // consecutive rows are of different clusters
      labels_.push_back(static_cast<std::int32_t>(label));
      for (std::size_t f = 0; f < kFeatures; ++f) {
        base_.push_back(static_cast<float>(node(label, f)) + near(random));
      }
    }
    for (std::size_t j = 0; j < k; ++j) {
      for (std::size_t f = 0; f < kFeatures; ++f) {
        start_.push_back(static_cast<float>(node(j, f)) + (f == 0 ? 0.2f : -0.2f));
      }
    }
  }

  std::size_t k() const { return k_; }
  std::size_t n() const { return kProduct / k_; }
  const std::vector<float>& start() const { return start_; }
  std::int32_t label(std::size_t row) const { return labels_[row % kPeriod]; }

  float value(std::size_t row, std::size_t feature) const {
    const auto quarter = static_cast<float>(row / (n() / kQuarters));
    return base_[row % kPeriod * kFeatures + feature] + quarter * static_cast<float>(kShift);
  }

  /// [n, d]
  std::vector<float> points() const {
    std::vector<float> rows(n() * kFeatures);
    for (std::size_t i = 0; i < n(); ++i) {
      for (std::size_t f = 0; f < kFeatures; ++f) {
        rows[i * kFeatures + f] = value(i, f);
      }
    }
    return rows;
  }

  /// Memberships of a row in all clusters, at the start and with m = 2.
  std::vector<double> memberships(std::size_t row) const {
    std::vector<double> of_row(k_);
    double all = 0.0;
    for (std::size_t j = 0; j < k_; ++j) {
      double square = 0.0;
      for (std::size_t f = 0; f < kFeatures; ++f) {
        square += std::pow(double{value(row, f)} - double{start_[j * kFeatures + f]}, 2);
      }
      all += of_row[j] = 1.0 / square;
    }
    std::ranges::for_each(of_row, [all](double& membership) { membership /= all; });
    return of_row;
  }

  /// [k, d]: means of the labels; or fuzzy, centres after one pass.
  std::vector<double> centroids(bool fuzzy) const {
    std::vector<double> sums(k_ * kFeatures), weights(k_);
    for (std::size_t r = 0; r < kPeriod * kQuarters; ++r) {
      const std::size_t row = r / kPeriod * (n() / kQuarters) + r % kPeriod;
      const std::vector<double> of_row = fuzzy ? memberships(row) : std::vector<double>();
      const auto own = static_cast<std::size_t>(label(row));
      for (std::size_t j = fuzzy ? 0 : own; j < (fuzzy ? k_ : own + 1); ++j) {
        const double weight = fuzzy ? of_row[j] * of_row[j] : 1.0;
        weights[j] += weight;
        for (std::size_t f = 0; f < kFeatures; ++f) {
          sums[j * kFeatures + f] += weight * double{value(row, f)};
        }
      }
    }
    for (std::size_t c = 0; c < sums.size(); ++c) {
      sums[c] /= weights[c / kFeatures];
    }
    return sums;
  }

private:
  double node(std::size_t j, std::size_t feature) const {
    return kSpacing * static_cast<double>(feature == 0 ? j % columns_ : j / columns_);
  }

  std::size_t k_, columns_;
  std::vector<float> base_;          // [kPeriod, d]
  std::vector<std::int32_t> labels_; // [kPeriod]
  std::vector<float> start_;         // [k, d]
};

/// A lattice and its points, on the host and the device; one at a time, they are large.
struct Data {
  explicit Data(std::size_t k)
      : lattice(k), host(lattice.points()), device(Place::device, host.size()) {
    device.copy_from(host);
  }
  static const Data& of(std::size_t k) {
    static std::unique_ptr<Data> current;
    if (current == nullptr || current->lattice.k() != k) {
      current.reset();
      current = std::make_unique<Data>(k);
    }
    return *current;
  }
  Lattice lattice;
  std::vector<float> host;
  PlacedArray<float> device;
};

struct Parameter {
  std::string variant;
  std::size_t k;
};

class LargeProducts : public testing::TestWithParam<Parameter> {
protected:
  void SetUp() override {
    if (const std::string reason = why_skipped(GetParam().variant); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    constexpr std::size_t kNeeded = std::size_t{48} << 30; // memberships are 32 GiB of it
    if (gpu_state(0).memory_total_bytes < kNeeded) {
      GTEST_SKIP() << "the GPU has less than 48 GiB of memory";
    }
  }
};

TEST_P(LargeProducts, AreRight) {
  const Data& data = Data::of(GetParam().k);
  const Lattice& lattice = data.lattice;
  const RegisteredVariant& registered = built_variant(GetParam().variant);
  const bool fuzzy = registered.meta.family == Family::fcm;
  const std::size_t n = lattice.n(), k = lattice.k(), values = k * kFeatures;
  Shape shape{.n = n, .d = kFeatures, .k = k, .stop = {}};
  shape.stop.max_iterations = fuzzy ? 1 : 2; // a second pass finds the same labels and means
  const auto variant = variant_tests::make<float>(registered);
  if (kFeatures < registered.meta.min_d || k > registered.meta.max_k) {
    GTEST_SKIP() << "another number of features or clusters";
  }
  if (const std::string reason = variant->refuse(shape); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  PlacedArray<float> start(Place::device, values), centroids(Place::device, values),
      entering(Place::device, values), memberships(Place::device, fuzzy ? n * k : 0);
  PlacedArray<std::int32_t> labels(Place::device, n);
  start.copy_from(lattice.start());
  labels.fill(0xFF);
  memberships.fill(0xFF);
  Answer<float> answer{labels.span(), centroids.span(), entering.span(), memberships.span(), 0};
  Observer<float> nobody;
  try {
    variant->prepare(shape, {registered.meta.points_on_host ? std::span<const float>(data.host)
                                                            : std::as_const(data.device).span(),
                             0});
    variant->run({std::as_const(start).span(), {}}, answer, nobody);
  } catch (const Refusal& refusal) {
    GTEST_SKIP() << refusal.what();
  }
  device_calls().synchronize();

  std::vector<std::int32_t> found(n);
  labels.copy_to(found);
  std::size_t wrong = 0, first_wrong = n;
  for (std::size_t i = n; i-- > 0;) {
    if (found[i] != lattice.label(i)) {
      ++wrong;
      first_wrong = i;
    }
  }
  EXPECT_EQ(wrong, 0u) << "the first one is row " << first_wrong;

  std::vector<float> means(values);
  centroids.copy_to(means);
  const std::vector<double> right = lattice.centroids(fuzzy);
  double farthest = 0.0;
  for (std::size_t c = 0; c < values; ++c) {
    const double distance = std::abs(double{means[c]} - right[c]);
    farthest = std::max(farthest, std::isnan(distance) ? INFINITY : distance);
  }
  // Sums of 2^21 floats, added one after the other by atomics, lose more than a missing row would.
  EXPECT_LT(farthest, registered.meta.deterministic ? 0.1 * kShift : 0.25);

  // Rows at both ends, and around those whose memberships begin at 2^31 and 2^32.
  for (const std::size_t middle : {std::size_t{2}, kProduct / 4 / k, kProduct / 2 / k, n - 3}) {
    for (std::size_t row = middle - 2; fuzzy && row < middle + 3; ++row) {
      std::vector<float> own(k);
      device_calls().download(0, own.data(), memberships.span().data() + row * k,
                              k * sizeof(float));
      const std::vector<double> expected = lattice.memberships(row);
      for (std::size_t j = 0; j < k; ++j) {
        ASSERT_NEAR(own[j], expected[j], 1e-3 * expected[j] + 1e-6)
            << "row " << row << ", cluster " << j;
      }
    }
  }
}

std::vector<Parameter> parameters() {
  std::vector<Parameter> all;
  for (const std::size_t k : {std::size_t{64}, std::size_t{1} << 13}) {
    for (const KnownVariant* known : all_variants()) {
      // One that chooses among others is none itself.
      if (!known->is_program && known->meta.device == Device::gpu &&
          supports(*known, Precision::f32) && known->meta.name.find("_auto") == std::string::npos) {
        all.push_back({known->meta.name, k});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(TwoTo33, LargeProducts, testing::ValuesIn(parameters()),
                         [](const auto& each) {
                           return each.param.variant + "_k" + std::to_string(each.param.k);
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LargeProducts);

} // namespace
} // namespace clusterbench
