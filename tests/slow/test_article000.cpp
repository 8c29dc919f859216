// Acceptance: article 000's published figures, reached by variants of ours on its own data.
//
// Its data is make_classification(..., random_state=1024), its serial program prints a loss per
// pass, 4 x 100 centroid values and ten labels, and scikit-learn prints an inertia per pass; all of
// them are in results/published.json.
#include "datasets/catalog.hpp"
#include "harness/worker/recorder.hpp"
#include "harness/worker/session.hpp"
#include "tests/built_variants.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace clusterbench {
namespace {

constexpr std::size_t kPoints = 1'000'000;
constexpr std::size_t kFeatures = 100;
constexpr std::size_t kClusters = 4;

const nlohmann::json& published() {
  static const nlohmann::json article = [] {
    const char* source = std::getenv("CLUSTERBENCH_SOURCE");
    std::ifstream file(std::string(source ? source : ".") + "/results/published.json");
    return nlohmann::json::parse(file).at("articles").at("article000");
  }();
  return article;
}

/// The data in float64; throws if it cannot be made.
const datasets::Array& data() {
  static const datasets::Array array = datasets::load(datasets::resolve("article000"));
  return array;
}

/// As `std::cout << value` prints it, which is how the article got its figures.
std::string printed(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

/// A run on the article's problem: its data, and rows 1, 3, 6 and 8 of it as first centroids.
template <typename T>
struct ArticleRun {
  std::vector<T> initial;
  std::vector<std::int32_t> labels = std::vector<std::int32_t>(kPoints);
  std::vector<T> centroids = std::vector<T>(kClusters * kFeatures);
  std::size_t iterations = 0;
  Recorder<T> recorder{Place::host};

  /// The centroids after a pass, counted from 0.
  std::span<const T> pass(std::size_t index) const {
    return std::span(recorder.passes())
        .subspan(index * kClusters * kFeatures, kClusters * kFeatures);
  }
  std::size_t passes() const { return recorder.passes().size() / (kClusters * kFeatures); }

  ArticleRun(const std::string& name, std::span<const T> points, const StopRule& stop) {
    for (const std::size_t row : published().at("workload").at("init_rows")) {
      const auto values = points.subspan(row * kFeatures, kFeatures);
      initial.insert(initial.end(), values.begin(), values.end());
    }
    Session<T> session(built_variant(name), program_folder() / "modules",
                       {.n = kPoints, .d = kFeatures, .k = kClusters, .stop = stop});
    session.take_points(points, 0);
    session.prepare();
    session.run({initial, {}}, recorder);
    session.take({labels, centroids, {}, {}, 0});
    iterations = session.iterations();
  }
};

/// Sum over the points of the squared distance to the nearest centroid, with compensated sums.
double inertia(std::span<const double> points, std::span<const double> centroids) {
  double sum = 0.0;
  double lost = 0.0; // what rounding took from `sum`: Neumaier's compensation
  for (std::size_t i = 0; i < kPoints; ++i) {
    double smallest = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < kClusters; ++j) {
      double distance = 0.0;
      for (std::size_t f = 0; f < kFeatures; ++f) {
        const double difference = points[i * kFeatures + f] - centroids[j * kFeatures + f];
        distance += difference * difference;
      }
      smallest = std::min(smallest, distance);
    }
    const double next = sum + smallest;
    lost += sum >= smallest ? (sum - next) + smallest : (smallest - next) + sum;
    sum = next;
  }
  return sum + lost;
}

// The article's program stops in pass 34 and prints what the 33 passes before it found.
TEST(Article000, SerialProgramInFloatDigitForDigit) {
  const std::span<const double> values = data().f64();
  std::vector<float> points(values.size());
  std::ranges::transform(values, points.begin(), [](double v) { return static_cast<float>(v); });
  const ArticleRun<float> run(
      "kmeans_serial_distances", points,
      {.kind = StopRule::Kind::loss, .threshold = 0.1, .max_iterations = 50});

  EXPECT_EQ(run.iterations, published().at("inferred").at("passes").at("cpp-serial"));
  EXPECT_EQ(run.passes(), run.iterations);
  const std::vector<double>& printed_losses = run.recorder.printed_losses();
  ASSERT_EQ(printed_losses.size(), run.iterations);
  const auto& losses = published().at("loss_trace").at("cpp-serial");
  ASSERT_EQ(losses.size(), 33u);
  for (std::size_t p = 0; p < losses.size(); ++p) {
    EXPECT_EQ(printed(printed_losses[p]), printed(losses[p])) << "pass " << p + 1;
  }
  // "Changed by less than 0.1" where neighbouring floats are 1 apart: the last two are equal.
  EXPECT_EQ(printed_losses[33], printed_losses[32]);

  const auto& centroids = published().at("final_centroids").at("cpp-serial");
  ASSERT_EQ(centroids.size(), kClusters);
  for (std::size_t j = 0; j < kClusters; ++j) {
    ASSERT_EQ(centroids[j].size(), kFeatures);
    for (std::size_t f = 0; f < kFeatures; ++f) {
      EXPECT_EQ(printed(double{run.centroids[j * kFeatures + f]}), printed(centroids[j][f]))
          << "centroid " << j << ", feature " << f;
    }
  }
  const auto labels = published().at("first_ten_labels").at("cpp-serial");
  ASSERT_EQ(labels.size(), 10u);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    EXPECT_EQ(run.labels[i], labels[i]) << "point " << i;
  }
}

// scikit-learn prints the inertia of the centroids that enter each iteration.
TEST(Article000, InertiaTraceInDoubleEqualsScikitLearns) {
  const auto& expected = published().at("inertia_trace").at("scikit-learn");
  ASSERT_EQ(expected.size(), 22u);
  const ArticleRun<double> run(
      "kmeans_serial", data().f64(),
      {.kind = StopRule::Kind::iterations, .max_iterations = expected.size()});
  ASSERT_EQ(run.passes(), expected.size());
  std::span<const double> entering = run.initial;
  double worst = 0.0;
  for (std::size_t p = 0; p < expected.size(); ++p) {
    const double found = inertia(data().f64(), entering);
    const double printed_value = expected[p];
    EXPECT_NEAR(found, printed_value, 1e-12 * printed_value) << "pass " << p;
    worst = std::max(worst, std::abs(found / printed_value - 1.0));
    entering = run.pass(p);
  }
  RecordProperty("largest_relative_difference", printed(worst));
  std::printf("largest relative difference: %s\n", printed(worst).c_str());
  const auto labels = published().at("first_ten_labels").at("scikit-learn");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    EXPECT_EQ(run.labels[i], labels[i]) << "point " << i;
  }
}

} // namespace
} // namespace clusterbench
