// What a worker is given for a problem, and where it leaves its answers.
#pragma once

#include "harness/judge/verifier.hpp"
#include "harness/problem/workload.hpp"
#include "harness/system/shared_memory.hpp"
#include "harness/worker/protocol.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace clusterbench {

/// An answer that was taken out of a worker's reach.
template <typename T>
struct TakenAnswer {
  std::size_t start = 0; ///< number of the start in the problem's sequence
  std::vector<std::int32_t> labels;
  std::vector<T> centroids, entering, memberships;
  std::vector<T> recorded; ///< [iterations, k, d] of a recording run
  std::size_t iterations = 0;
  bool rotated = false; ///< whether the worker saw the rows in another order: sums have other bits

  JudgedAnswer<T> view() const {
    JudgedAnswer<T> answer;
    answer.labels = labels;
    answer.centroids = centroids;
    answer.entering = entering;
    answer.memberships = memberships;
    answer.recorded = recorded;
    answer.iterations = iterations;
    return answer;
  }
  std::size_t bytes() const {
    return labels.size() * sizeof(std::int32_t) +
           (centroids.size() + entering.size() + memberships.size() + recorded.size()) * sizeof(T);
  }
};

/// Where two answers from the same start first differ in their bits, what entered the last pass
/// aside; empty where they are equal.
template <typename T>
std::string difference_in_bits(const TakenAnswer<T>& a, const TakenAnswer<T>& b) {
  if (a.iterations != b.iterations) {
    return fmt::format("{} and {} iterations", a.iterations, b.iterations);
  }
  std::string found;
  const auto compare = [&found](const char* name, const auto& x, const auto& y) {
    if (!found.empty() ||
        std::ranges::equal(std::as_bytes(std::span(x)), std::as_bytes(std::span(y)))) {
      return;
    }
    std::size_t i = 0;
    while (i < std::min(x.size(), y.size()) && std::memcmp(&x[i], &y[i], sizeof(x[i])) == 0) {
      ++i;
    }
    found = i < std::min(x.size(), y.size())
                ? fmt::format("{}[{}]: {} and {}", name, i, x[i], y[i])
                : fmt::format("{}: {} and {} values", name, x.size(), y.size());
  };
  compare("labels", a.labels, b.labels);
  compare("centroids", a.centroids, b.centroids);
  compare("memberships", a.memberships, b.memberships);
  return found;
}

/// The memory of one problem that is shared with one worker: the points and their weights, sealed,
/// the start, which only the parent can write, and the answer.
template <typename T>
class CellMemory {
public:
  /// points: [n, d], which nobody can write to, and weights: [n], if there are any; both must
  /// outlive this. Throws OutOfMemory.
  CellMemory(const Shape& shape, Family family, PointsPlace points, bool gives_entering,
             const SharedMemory* weights = nullptr)
      : shape_(shape), points_(points), weights_(shape.weighted ? weights : nullptr),
        start_("start", shape.k * (shape.starts_from_memberships ? shape.n : shape.d) * sizeof(T)),
        labels_("labels", shape.n * sizeof(std::int32_t)),
        centroids_("centroids", shape.k * shape.d * sizeof(T)),
        entering_("entering", gives_entering ? shape.k * shape.d * sizeof(T) : 0),
        memberships_("memberships", family == Family::fcm ? shape.n * shape.k * sizeof(T) : 0),
        record_("record") {
    start_.seal();
    for (SharedMemory* memory : {&labels_, &centroids_, &entering_, &memberships_}) {
      memory->fix_size();
    }
  }

  /// What the worker has to inherit.
  std::vector<int> descriptors() const {
    std::vector<int> all = {points_.descriptor, start_.fd(),       labels_.fd(), centroids_.fd(),
                            entering_.fd(),     memberships_.fd(), record_.fd()};
    if (weights_ != nullptr) {
      all.push_back(weights_->fd());
    }
    return all;
  }

  PointsRequest request(std::size_t rotate = 0) const {
    PointsRequest request;
    request.precision = std::is_same_v<T, float> ? "f32" : "f64";
    request.shape = shape_;
    request.rotate = rotate;
    request.points = shape_.n > 0 ? path(points_.descriptor) : "";
    request.points_descriptor = points_.descriptor;
    request.points_offset = points_.offset;
    request.points_in_file = points_.in_file;
    request.generated = points_.generated;
    request.weights = weights_ != nullptr ? path(*weights_) : "";
    request.start = path(start_);
    request.labels = path(labels_);
    request.centroids = path(centroids_);
    request.entering = path(entering_);
    request.memberships = path(memberships_);
    request.record = path(record_, /*also_empty=*/true);
    return request;
  }

  /// To be called before every run. What the worker does not write to is seen in the answer.
  /// `rotate` as in its request: memberships turn with the points.
  void put_start(std::span<const T> values, std::size_t rotate = 0) {
    constexpr int kPoison = 0xFF;
    for (SharedMemory* memory : {&labels_, &centroids_, &entering_, &memberships_}) {
      if (memory->bytes() > 0) {
        std::memset(memory->span().data(), kPoison, memory->bytes());
      }
    }
    const std::size_t first = shape_.starts_from_memberships ? rotate * shape_.k : 0;
    std::ranges::rotate_copy(values, values.begin() + static_cast<std::ptrdiff_t>(first),
                             start_.template as<T>().begin());
  }

  /// A copy of what the worker has written; `rotate` as in its request.
  TakenAnswer<T> answer(std::size_t iterations, std::size_t rotate = 0) const {
    TakenAnswer<T> taken;
    taken.iterations = iterations;
    taken.rotated = rotate != 0;
    taken.labels = rows(labels_.template as<std::int32_t>(), 1, rotate);
    taken.memberships = rows(memberships_.template as<T>(), shape_.k, rotate);
    const auto copy = [](std::span<const T> values) {
      return std::vector<T>(values.begin(), values.end());
    };
    taken.centroids = copy(centroids_.template as<T>());
    taken.entering = copy(entering_.template as<T>());
    return taken;
  }

  /// The passes of the last recording run.
  std::vector<T> recorded() const {
    const std::string bytes = read_all(record_.fd());
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }

private:
  static std::string path(const SharedMemory& memory, bool also_empty = false) {
    return memory.bytes() > 0 || also_empty ? path(memory.fd()) : "";
  }
  static std::string path(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }
  // Row (i + rotate) mod n is row i of what the worker saw.
  template <typename V>
  std::vector<V> rows(std::span<const V> values, std::size_t width, std::size_t rotate) const {
    std::vector<V> unrotated(values.size());
    if (!values.empty()) {
      std::ranges::rotate_copy(values, values.end() - static_cast<std::ptrdiff_t>(rotate * width),
                               unrotated.begin());
    }
    return unrotated;
  }

  Shape shape_;
  PointsPlace points_;
  const SharedMemory* weights_;
  SharedMemory start_, labels_, centroids_, entering_, memberships_, record_;
};

/// What a worker may read but not change. Throws OutOfMemory.
template <typename T>
SharedMemory sealed_copy(const std::string& name, std::span<const T> values) {
  SharedMemory memory(name, values.size_bytes());
  std::ranges::copy(values, memory.as<T>().begin());
  memory.seal();
  return memory;
}

} // namespace clusterbench
