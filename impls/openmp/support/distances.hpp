// Squared distances from a point to one centroid or to all, the same bits either way.
//
// What is compared must not depend on which distances a bound has spared, so the order of every sum
// is fixed: feature after feature up to kFewFeatures of them, where centroids lie side by side in
// vector registers; else by lanes, which are then halved. Vectors are those of GCC and Clang: their
// lanes are the language's own arithmetic, whatever the machine has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

namespace clusterbench::openmp {

template <typename T>
class Distances {
public:
  Distances() = default;

  Distances(std::size_t d, std::size_t k)
      : d_(d), k_(k), room_((k + kLanes - 1) / kLanes * kLanes),
        columns_(d <= kFewFeatures ? room_ * d : 0, std::numeric_limits<T>::infinity()) {}

  /// Takes the centroids, [k, d] row-major, which must stay where they are until the next set().
  void set(std::span<const T> centroids) {
    rows_ = centroids.data();
    if (!columns_.empty()) {
      for (std::size_t j = 0; j < k_; ++j) {
        for (std::size_t f = 0; f < d_; ++f) {
          columns_[(j / kLanes * d_ + f) * kLanes + j % kLanes] = rows_[j * d_ + f];
        }
      }
    }
  }

  /// Length of what all() writes: k, rounded up.
  std::size_t room() const { return room_; }

  const char* layout() const {
    return columns_.empty() ? "lanes of features" : "lanes of clusters";
  }

  /// From x, [d], to centroid j.
  T one(const T* x, std::size_t j) const { return between(x, rows_ + j * d_); }

  /// From x to every centroid: squared[room()], infinite beyond k.
  void all(const T* x, T* squared) const {
    if (columns_.empty()) {
      for (std::size_t j = 0; j < k_; ++j) {
        squared[j] = one(x, j);
      }
      std::fill(squared + k_, squared + room_, std::numeric_limits<T>::infinity());
      return;
    }
    const T* column = columns_.data();
    for (std::size_t j = 0; j < room_; j += kLanes) {
      Vector sum{};
      for (std::size_t f = 0; f < d_; ++f, column += kLanes) {
        Vector c;
        std::memcpy(&c, column, sizeof c);
        const Vector difference = x[f] - c;
        sum += difference * difference;
      }
      std::memcpy(squared + j, &sum, sizeof sum);
    }
  }

  /// Between any two rows of d values.
  T between(const T* x, const T* y) const {
    if (d_ <= kFewFeatures) {
      T sum = 0;
      for (std::size_t f = 0; f < d_; ++f) {
        sum += (x[f] - y[f]) * (x[f] - y[f]);
      }
      return sum;
    }
    Vector sums{};
    std::size_t f = 0;
    for (; f + kLanes <= d_; f += kLanes) {
      Vector a, b;
      std::memcpy(&a, x + f, sizeof a);
      std::memcpy(&b, y + f, sizeof b);
      const Vector difference = a - b;
      sums += difference * difference;
    }
    if (f < d_) {
      Vector a{}, b{};
      std::memcpy(&a, x + f, (d_ - f) * sizeof(T));
      std::memcpy(&b, y + f, (d_ - f) * sizeof(T));
      const Vector difference = a - b;
      sums += difference * difference;
    }
    T lanes[kLanes];
    std::memcpy(lanes, &sums, sizeof sums);
    for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::size_t lane = 0; lane < half; ++lane) {
        lanes[lane] += lanes[lane + half];
      }
    }
    return lanes[0];
  }

private:
  static constexpr std::size_t kVectorBytes = 64;
  static constexpr std::size_t kLanes = kVectorBytes / sizeof(T);
  static constexpr std::size_t kFewFeatures = 16;
  typedef T Vector __attribute__((vector_size(kVectorBytes)));

  std::size_t d_ = 0, k_ = 0, room_ = 0;
  const T* rows_ = nullptr;
  std::vector<T> columns_; // [room / lanes, d, lanes], if there are few features
};

} // namespace clusterbench::openmp
