// Problems that fill four fifths of the device's memory, with more values than 32 bits count: every
// label is compared with that of the first copy of its row, and some with float64.
//
// The points are a piece of memory that is mapped again and again, so that the host needs no room
// for them. How large a problem the device holds is what the variants themselves say: they refuse
// more. Skipped where there is no GPU.
#include "tests/gpu/run_on_gpu.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace clusterbench {
namespace {

constexpr std::size_t kPage = 4096;

/// [n, d], of which only the first `period` rows are in memory.
class RepeatedRows {
public:
  RepeatedRows(std::size_t n, std::size_t d) : n_(n), d_(d) {
    const std::size_t whole =
        kPage / std::gcd(kPage, d * sizeof(float)); // rows that end with a page
    period_ = (100000 / whole | 1) * whole;
    const std::size_t piece = period_ * d * sizeof(float);
    const int file = memfd_create("rows", 0);
    if (file < 0 || ftruncate(file, static_cast<off_t>(piece)) != 0) {
      throw std::runtime_error("no memory file");
    }
    bytes_ = (n + period_ - 1) / period_ * piece;
    void* all =
        mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) {
      throw std::runtime_error("no address space");
    }
    data_ = static_cast<char*>(all);
    for (std::size_t at = 0; at < bytes_; at += piece) {
      if (mmap(data_ + at, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
          MAP_FAILED) {
        throw std::runtime_error("no mapping");
      }
    }
    close(file);
    std::mt19937 random(static_cast<unsigned>(d));
    std::normal_distribution<float> normal;
    std::vector<float> middles(50 * d);
    std::ranges::generate(middles, [&] { return normal(random); });
    auto* values = reinterpret_cast<float*>(data_);
    for (std::size_t e = 0; e < period_ * d; ++e) {
      values[e] = middles[e / d % 50 * d + e % d] + 0.7f * normal(random);
    }
  }
  ~RepeatedRows() { munmap(data_, bytes_); }
  RepeatedRows(const RepeatedRows&) = delete;
  RepeatedRows& operator=(const RepeatedRows&) = delete;

  std::size_t period() const { return period_; }
  std::span<const float> values() const { return {reinterpret_cast<const float*>(data_), n_ * d_}; }

private:
  std::size_t n_, d_, period_ = 0, bytes_ = 0;
  char* data_ = nullptr;
};

/// The nearest centroid in float64, and whether another one is as near as float32 can tell.
std::pair<std::int32_t, bool> nearest(std::span<const float> row,
                                      std::span<const float> centroids) {
  const std::size_t d = row.size();
  double least = std::numeric_limits<double>::infinity(), next = least;
  std::size_t label = 0;
  for (std::size_t j = 0; j < centroids.size() / d; ++j) {
    double squared = 0.0;
    for (std::size_t f = 0; f < d; ++f) {
      const double difference =
          static_cast<double>(row[f]) - static_cast<double>(centroids[j * d + f]);
      squared += difference * difference;
    }
    next = std::min(next, std::max(least, squared));
    label = squared < least ? j : label;
    least = std::min(least, squared);
  }
  const double room = 2.0 * static_cast<double>(d + 2) * 0x1p-24;
  return {static_cast<std::int32_t>(label), next - least <= room * next};
}

template <typename T>
std::vector<T> on_host(const PlacedArray<T>& placed) {
  std::vector<T> values(placed.size());
  placed.copy_to(values);
  return values;
}

/// The answer of one run. A session would hold a copy of the points in host memory.
OwnedAnswer<float> run_uncopied(const RegisteredVariant& registered, const Shape& shape,
                                std::span<const float> host_points,
                                std::span<const float> host_start) {
  const std::size_t values = shape.k * shape.d;
  PlacedArray<float> points(Place::device, host_points.size()), start(Place::device, values),
      centroids(Place::device, values), entering(Place::device, values);
  PlacedArray<std::int32_t> labels(Place::device, shape.n);
  points.copy_from(host_points);
  start.copy_from(host_start);
  const auto variant = variant_tests::make<float>(registered); // goes before its arrays
  variant->prepare(shape, {points.span(), 0});
  Answer<float> answer{labels.span(), centroids.span(), entering.span(), {}, 0};
  Observer<float> nobody;
  variant->run({start.span(), {}}, answer, nobody);
  device_calls().synchronize();
  OwnedAnswer<float> owned;
  owned.labels = on_host(labels);
  owned.centroids = on_host(centroids);
  owned.entering = on_host(entering);
  owned.iterations = answer.iterations;
  return owned;
}

struct Size {
  const char* variant;
  std::size_t d, k;
  std::size_t n; ///< 0: four fifths of what is not refused
  std::size_t passes = 2;
};

class CudaMemory : public testing::TestWithParam<Size> {};

TEST_P(CudaMemory, Right) {
  const auto [name, d, k, fixed_n, passes] = GetParam();
  if (const std::string reason = why_skipped(name); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  const RegisteredVariant& registered = built_variant(name);
  Shape shape{.n = 0, .d = d, .k = k, .stop = {StopRule::Kind::iterations, 0.0, passes}};
  const auto refusal_of = [&](std::size_t n) {
    shape.n = n;
    return refusal_of_shape<float>(registered, shape);
  };
  std::size_t most = 0; // the largest n that is not refused
  for (std::size_t step = std::size_t{1} << 30; step > 0; step /= 2) {
    most += refusal_of(most + step).empty() ? step : 0;
  }
  EXPECT_NE(refusal_of(most + 1).find("device memory"), std::string::npos) << refusal_of(most + 1);
  if (const std::string reason = refusal_of(fixed_n > 0 ? fixed_n : most / 5 * 4);
      !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  const RepeatedRows rows(shape.n, d);
  const auto points = rows.values();
  const auto answer = run_uncopied(registered, shape, points, points.first(k * d));
  ASSERT_EQ(answer.iterations, shape.stop.max_iterations);

  std::size_t off = 0; // rows that are the same have the same label
  for (std::size_t i = rows.period(); i < shape.n; ++i) {
    off += answer.labels[i] != answer.labels[i % rows.period()] ? 1 : 0;
  }
  EXPECT_EQ(off, 0u);
  std::mt19937_64 random(1);
  for (int e = 0; e < 2000; ++e) {
    const std::size_t i = random() % shape.n;
    const auto [label, doubtful] = nearest(points.subspan(i * d, d), answer.entering);
    EXPECT_TRUE(doubtful || answer.labels[i] == label) << "row " << i;
  }
  // The centroids are means of the labels: those of a copy weigh alike, but for the last, cut one.
  std::vector<double> sums(k * d), counts(k);
  const std::size_t copies = shape.n / rows.period(), rest = shape.n % rows.period();
  for (std::size_t i = 0; i < rows.period(); ++i) {
    const auto j = static_cast<std::size_t>(answer.labels[i]);
    const double times = static_cast<double>(copies) + (i < rest ? 1.0 : 0.0);
    counts[j] += times;
    for (std::size_t f = 0; f < d; ++f) {
      sums[j * d + f] += times * static_cast<double>(points[i * d + f]);
    }
  }
  for (std::size_t e = 0; e < k * d; ++e) {
    if (counts[e / d] > 0.0) {
      EXPECT_NEAR(answer.centroids[e], sums[e] / counts[e / d], 1e-6) << "value " << e;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Filled, CudaMemory,
    testing::Values(Size{"kmeans_cuda_wgmma", 128, 64, 0},
                    Size{"kmeans_cuda_certified", 24, 100, 0},
                    Size{"kmeans_cuda_packed", 24, 100, 0},
                    Size{"kmeans_cuda_mma", 128, 64, (std::size_t{1} << 25) + 1000},
                    Size{"kmeans_cuda_hamerly", 128, 600, (std::size_t{1} << 25) + 1000, 8},
                    Size{"kmeans_cuda_tiled", 128, 64, (std::size_t{1} << 25) + 1000}),
    [](const auto& size) {
      return std::string(size.param.variant) + (size.param.n == 0 ? "_memory" : "_values");
    });

} // namespace
} // namespace clusterbench
