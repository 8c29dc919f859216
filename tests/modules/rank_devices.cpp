// K-means of ranks with a device each, on the devices of fake_devices.cpp, which are host memory:
// what such a variant is given can be tried where there is no GPU.
#include "impls/contract.hpp"

#include <algorithm>
#include <fstream>
#include <mpi.h>

namespace clusterbench {
namespace {

class RankDevices final : public Variant<float> {
public:
  void prepare(const Shape& shape, const Points<float>& points) override {
    shape_ = shape;
    rows_ = points.rows;
    writes_to_own_proc_ = std::ofstream("/proc/self/comm").is_open(); // as CUDA must
  }

  std::string chosen_path() const override {
    return writes_to_own_proc_ ? "writes to its own /proc" : "cannot write to its own /proc";
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    const std::size_t d = shape_.d, k = shape_.k;
    std::ranges::copy(start.centroids, answer.centroids.begin());
    StopTest stop(shape_.stop);
    PassFacts facts;
    do {
      std::vector<double> sums(k * (d + 1) + 2); // [k, d], [k], changed labels, loss
      for (std::size_t i = 0; i < shape_.n; ++i) {
        const std::span<const float> row = rows_.subspan(i * d, d);
        const auto [label, distance] = nearest(row, answer.centroids);
        sums[k * d + k] += answer.labels[i] != static_cast<std::int32_t>(label) ? 1.0 : 0.0;
        sums[k * d + k + 1] += distance;
        answer.labels[i] = static_cast<std::int32_t>(label);
        std::ranges::transform(row, std::span(sums).subspan(label * d, d), &sums[label * d],
                               std::plus{});
        sums[k * d + label] += 1.0;
      }
      MPI_Allreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(sums.size()), MPI_DOUBLE, MPI_SUM,
                    MPI_COMM_WORLD);
      std::ranges::copy(answer.centroids, answer.entering.begin());
      facts = {sums[k * d + k + 1], stop.passes() == 0 || sums[k * d + k] > 0.0, 0.0};
      for (std::size_t c = 0; c < k * d; ++c) {
        if (const double count = sums[k * d + c / d]; count > 0.0) {
          answer.centroids[c] = static_cast<float>(sums[c] / count);
        }
        const double shift = double{answer.centroids[c]} - double{answer.entering[c]};
        facts.squared_shift += shift * shift;
      }
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

private:
  /// The nearest centroid, and how far it is.
  static std::pair<std::size_t, double> nearest(std::span<const float> row,
                                                std::span<const float> centroids) {
    std::pair best{std::size_t{0}, std::numeric_limits<double>::infinity()};
    for (std::size_t c = 0; c < centroids.size() / row.size(); ++c) {
      double squared = 0.0;
      for (std::size_t j = 0; j < row.size(); ++j) {
        const double difference = double{row[j]} - double{centroids[c * row.size() + j]};
        squared += difference * difference;
      }
      if (std::sqrt(squared) < best.second) {
        best = {c, std::sqrt(squared)};
      }
    }
    return best;
  }

  Shape shape_;
  std::span<const float> rows_;
  bool writes_to_own_proc_ = false;
};

const Registration registration({.name = "kmeans_rank_devices",
                                 .idea = "a device a rank",
                                 .source = "tests",
                                 .device = Device::mpi_gpu,
                                 .previous = ""},
                                f32_only<RankDevices>());

} // namespace
} // namespace clusterbench
