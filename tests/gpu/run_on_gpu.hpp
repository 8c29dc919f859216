// Runs variants of this build on this machine's GPU as the runner does, but in this process.
#pragma once

#include "harness/problem/problem.hpp"
#include "harness/problem/registry.hpp"
#include "harness/system/program_folder.hpp"
#include "harness/worker/recorder.hpp"
#include "harness/worker/session.hpp"
#include "tests/built_variants.hpp"
#include "tests/unit/run_variant.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

namespace clusterbench {

/// Why tests of a variant are skipped; empty if it is built and there is a GPU.
inline std::string why_skipped(const std::string& name) {
  const KnownVariant* known = find_variant(name);
  return known == nullptr ? "not built" : unavailable_reason(*known);
}

/// A variant prepared for a problem, whose arrays have to outlive it.
template <typename T>
class OnGpu {
public:
  /// devices: as Session takes them. Throws Refusal for a shape or points that the variant does not
  /// take.
  OnGpu(const RegisteredVariant& variant, const Problem<T>& problem, std::vector<int> devices = {0})
      : family_(variant.meta.family), problem_(problem),
        session_(variant, program_folder() / "modules", problem.shape(), std::move(devices)) {
    session_.take_points(problem.points, 0, problem.weights);
    session_.prepare();
  }

  /// The answer of a run from the problem's start; the observer keeps the recording. Throws Refusal
  /// for a start that the variant does not take.
  OwnedAnswer<T> run(Observer<T>& observer) {
    session_.run(problem_.start(), observer);
    OwnedAnswer<T> answer;
    answer.labels.resize(problem_.n);
    answer.centroids.resize(problem_.k * problem_.d);
    answer.entering.resize(problem_.k * problem_.d);
    answer.memberships.resize(family_ == Family::fcm ? problem_.n * problem_.k : 0);
    session_.take({answer.labels, answer.centroids, answer.entering, answer.memberships, 0});
    answer.iterations = session_.iterations();
    return answer;
  }
  OwnedAnswer<T> run() {
    Observer<T> nobody;
    return run(nobody);
  }
  /// With the centroids of all passes.
  OwnedAnswer<T> run_recorded() {
    Recorder<T> recorder(Place::device);
    OwnedAnswer<T> answer = run(recorder);
    answer.recorded = recorder.passes();
    return answer;
  }

  std::string chosen_path() const { return session_.chosen_path(); }

private:
  Family family_;
  Problem<T> problem_;
  Session<T> session_;
};

/// What the variant says against the shape alone; empty if it takes it.
template <typename T>
std::string refusal_of_shape(const RegisteredVariant& variant, const Shape& shape) {
  return variant_tests::make<T>(variant)->refuse(shape);
}

/// What the variant says against shape, points or start; empty if it takes them all. Only a run can
/// tell.
template <typename T>
std::string refusal(const RegisteredVariant& variant, const Problem<T>& problem) {
  try {
    OnGpu<T>(variant, problem).run();
    return {};
  } catch (const Refusal& refusal) {
    return refusal.what();
  }
}

/// Whether the problem is within the bounds of Meta, which the harness looks at first, and not
/// refused.
template <typename T>
bool takes(const RegisteredVariant& variant, const Problem<T>& problem) {
  const Meta& meta = variant.meta;
  return problem.d >= meta.min_d && problem.d <= meta.max_d && problem.k <= meta.max_k &&
         (problem.weights.empty() || meta.takes_weights) && refusal(variant, problem).empty();
}

/// The same to the bit, and after the same passes.
template <typename T>
void expect_same(const OwnedAnswer<T>& answer, const OwnedAnswer<T>& first) {
  EXPECT_EQ(answer.iterations, first.iterations);
  EXPECT_EQ(answer.labels, first.labels);
  EXPECT_EQ(answer.centroids, first.centroids);
  EXPECT_EQ(answer.memberships, first.memberships);
  EXPECT_EQ(answer.recorded, first.recorded);
  if (first.memberships.empty() || first.iterations > 1) { // else there may have been none
    EXPECT_EQ(answer.entering, first.entering);
  }
}

/// The answer of three recorded runs, two of one object and one of another, which have to give the
/// same.
template <typename T>
OwnedAnswer<T> repeated_answer(const RegisteredVariant& variant, const Problem<T>& problem) {
  OnGpu<T> object(variant, problem);
  OwnedAnswer<T> first = object.run_recorded();
  expect_same(object.run_recorded(), first);
  expect_same(OnGpu<T>(variant, problem).run_recorded(), first);
  return first;
}

/// Tests of a variant by its name.
class NamedGpuVariant : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    if (const std::string reason = why_skipped(GetParam()); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    registered_ = &built_variant(GetParam());
  }
  const RegisteredVariant& variant() const { return *registered_; }
  const Meta& meta() const { return registered_->meta; }

private:
  const RegisteredVariant* registered_ = nullptr;
};

} // namespace clusterbench
