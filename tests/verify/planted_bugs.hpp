// Variants of both families with one bug each, and correct ones as the control. They are what the
// verifier is tested against, and are registered nowhere.
#pragma once

#include "tests/verify/planted_variant.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace clusterbench::planted {

/// Lloyd's algorithm in T, in the order of the rows.
template <typename T>
class PlantedKMeans final : public PlantedVariant<T> {
public:
  using PlantedVariant<T>::PlantedVariant;

protected:
  PassFacts pass() override {
    const auto& p = this->shape_;
    PassFacts facts;
    facts.labels_changed = this->first_pass();
    this->labels_before_ = this->labels_;
    std::vector<T> sums(p.k * p.d);
    std::vector<T> counts(p.k);
    T loss = 0;
    for (std::size_t i = 0; i < p.n; ++i) {
      T smallest = 0;
      std::size_t best = this->nearest(i, smallest);
      if (this->bug_ == Bug::random_labels) {
        best = this->random_() % p.k;
      }
      const auto label = static_cast<std::int32_t>(best);
      facts.labels_changed = facts.labels_changed || this->labels_[i] != label;
      this->labels_[i] = label;
      loss += this->weight(i) * (this->bug_ == Bug::squared_loss ? smallest : std::sqrt(smallest));
      const T weight = this->bug_ == Bug::ignores_weights ? T(1) : this->weight(i);
      if (this->reaches_sums(i) && !this->loses_race(i)) {
        for (std::size_t f = 0; f < p.d; ++f) {
          sums[best * p.d + f] += weight * this->points_[i * p.d + f];
        }
      }
      counts[best] += this->reaches_counts(i) ? weight : T(0);
    }
    facts.loss = static_cast<double>(loss);
    facts.squared_shift = this->divide(sums, counts);
    return facts;
  }
};

/// Fuzzy c-means in T, in the order of the rows.
template <typename T>
class PlantedFcm final : public PlantedVariant<T> {
public:
  using PlantedVariant<T>::PlantedVariant;

protected:
  PassFacts pass() override {
    PassFacts facts;
    facts.labels_changed = this->first_pass();
    const auto labels = this->labels_;
    this->labels_before_ = labels;
    this->memberships_before_ = this->memberships_;
    if (!this->shape_.starts_from_memberships) {
      facts.loss = assign();
      facts.squared_shift = update();
      if (this->memberships_before_.empty()) {
        this->memberships_before_.assign(this->shape_.n * this->shape_.k,
                                         T(1) / static_cast<T>(this->shape_.k));
      }
    } else {
      facts.squared_shift = update();
      facts.loss = assign();
    }
    facts.labels_changed = facts.labels_changed || labels != this->labels_;
    return facts;
  }

private:
  /// Memberships and labels from the centres; returns the objective.
  double assign() {
    const auto& p = this->shape_;
    this->memberships_.resize(p.n * p.k);
    const T m = static_cast<T>(p.fuzzifier);
    const T exponent = (this->bug_ == Bug::wrong_exponent ? T(2) : T(1)) / (m - 1);
    T loss = 0;
    std::vector<T> squared(p.k);
    for (std::size_t i = 0; i < p.n; ++i) {
      T* const u = this->memberships_.data() + i * p.k;
      T smallest = 0;
      this->labels_[i] = static_cast<std::int32_t>(this->nearest(i, smallest));
      T sum = 0;
      for (std::size_t j = 0; j < p.k; ++j) {
        squared[j] = this->squared_distance(i, j);
        u[j] = squared[j] == smallest ? T(1) : std::pow(smallest / squared[j], exponent);
        sum += u[j];
      }
      for (std::size_t j = 0; j < p.k; ++j) {
        u[j] /= this->bug_ == Bug::not_normalised ? T(1) : sum;
        const T weight = this->bug_ == Bug::squared_loss ? u[j] : std::pow(u[j], m);
        loss += weight * squared[j];
      }
    }
    return static_cast<double>(loss);
  }

  /// Centres from the memberships; returns the squared shift.
  double update() {
    const auto& p = this->shape_;
    const T m = this->bug_ == Bug::unweighted_power ? T(1) : static_cast<T>(p.fuzzifier);
    std::vector<T> sums(p.k * p.d);
    std::vector<T> weights(p.k);
    for (std::size_t i = 0; i < p.n; ++i) {
      for (std::size_t j = 0; j < p.k; ++j) {
        const T weight = std::pow(this->memberships_[i * p.k + j], m);
        if (this->reaches_sums(i) && !this->loses_race(i)) {
          for (std::size_t f = 0; f < p.d; ++f) {
            sums[j * p.d + f] += weight * this->points_[i * p.d + f];
          }
        }
        weights[j] += this->reaches_counts(i) ? weight : T(0);
      }
    }
    return this->divide(sums, weights);
  }
};

} // namespace clusterbench::planted
