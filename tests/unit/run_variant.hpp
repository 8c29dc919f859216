// Runs a variant in this process as the harness does: prepared once, from a start into memory that
// holds poison. The answer owns its memory and comes with all that the variant told its observer.
#pragma once

#include "impls/contract.hpp"
#include "tests/points_in_file.hpp"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace clusterbench::variant_tests {

/// A problem and a start that own their arrays.
template <typename T>
struct Case {
  std::size_t n = 0, d = 0, k = 0;
  std::vector<T> points = {}, centroids = {}, memberships = {};
  StopRule stop = {};
  double fuzzifier = 2.0;
  int threads = 1;
  std::string what = {};
  std::vector<T> weights = {}; ///< [n], or empty

  Shape shape() const {
    return {.n = n,
            .d = d,
            .k = k,
            .stop = stop,
            .fuzzifier = fuzzifier,
            .starts_from_memberships = !memberships.empty(),
            .weighted = !weights.empty(),
            .threads = threads};
  }
  Start<T> start() const { return {centroids, memberships}; }
};

template <typename T>
struct Recorder : Observer<T> {
  std::vector<std::vector<T>> passes;
  std::vector<double> printed_losses, distances;
  std::size_t phases = 0, open_phases = 0;

  bool recording() const override { return true; }
  void pass(std::span<const T> centroids) override {
    EXPECT_EQ(open_phases, 0u);
    passes.emplace_back(centroids.begin(), centroids.end());
  }
  void begin_phase(std::string_view, void* stream) override {
    EXPECT_EQ(stream, nullptr);
    ++open_phases;
  }
  void end_phase(void*) override {
    --open_phases;
    ++phases;
  }
  void printed_loss(double loss) override { printed_losses.push_back(loss); }
  void counter(std::string_view name, double value) override {
    EXPECT_EQ(name, "distances");
    distances.push_back(value);
  }
};

template <typename T>
struct OwnedAnswer {
  std::vector<std::int32_t> labels;
  std::vector<T> centroids, entering, memberships;
  std::size_t iterations = 0;
  Recorder<T> recorder; ///< empty if the run was not recorded

  bool operator==(const OwnedAnswer& other) const {
    return labels == other.labels && centroids == other.centroids && entering == other.entering &&
           memberships == other.memberships && iterations == other.iterations;
  }
};

inline constexpr int kPoison = 0xFF;

template <typename T>
void fill_bytes(std::vector<T>& values, int byte) {
  if (!values.empty()) {
    std::memset(values.data(), byte, values.size() * sizeof(T));
  }
}

template <typename T>
std::size_t poisoned(const std::vector<T>& values) {
  T poison;
  std::memset(&poison, kPoison, sizeof poison);
  return static_cast<std::size_t>(std::ranges::count_if(
      values, [&](const T& value) { return std::memcmp(&value, &poison, sizeof value) == 0; }));
}

/// Memory for an answer, full of `byte`.
template <typename T>
OwnedAnswer<T> room_for(Family family, const Case<T>& test, int byte = kPoison) {
  OwnedAnswer<T> owned;
  owned.labels.resize(test.n);
  owned.centroids.resize(test.k * test.d);
  owned.entering.resize(test.k * test.d);
  owned.memberships.resize(family == Family::fcm ? test.n * test.k : 0);
  fill_bytes(owned.labels, byte);
  fill_bytes(owned.centroids, byte);
  fill_bytes(owned.entering, byte);
  fill_bytes(owned.memberships, byte);
  return owned;
}

/// Runs a prepared variant; the memory of the answer keeps what it holds until the variant writes.
template <typename T>
OwnedAnswer<T> run_into(OwnedAnswer<T> owned, Variant<T>& variant, const Case<T>& test,
                        bool recorded = true) {
  owned.recorder = {};
  Observer<T> nobody;
  Answer<T> answer{owned.labels, owned.centroids, owned.entering, owned.memberships, 0};
  variant.run(test.start(), answer, recorded ? owned.recorder : nobody);
  owned.iterations = answer.iterations;
  return owned;
}

/// Runs a prepared variant into poison.
template <typename T>
OwnedAnswer<T> run(Variant<T>& variant, Family family, const Case<T>& test, bool recorded = true) {
  return run_into(room_for(family, test), variant, test, recorded);
}

/// Prepares a variant and runs it once.
template <typename T>
OwnedAnswer<T> prepare_and_run(Variant<T>& variant, Family family, const Case<T>& test,
                               bool recorded = true) {
  Points<T> points = points_for<T>(&variant, test.points);
  points.weights = test.weights;
  variant.prepare(test.shape(), points);
  return run(variant, family, test, recorded);
}

/// Null if the variant has no such precision.
template <typename T>
std::unique_ptr<Variant<T>> make(const RegisteredVariant& registered) {
  if constexpr (std::is_same_v<T, float>) {
    return registered.factories.f32 ? registered.factories.f32() : nullptr;
  } else {
    return registered.factories.f64 ? registered.factories.f64() : nullptr;
  }
}

} // namespace clusterbench::variant_tests
