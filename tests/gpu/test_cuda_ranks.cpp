// Variants for several GPUs: over one, two and three ranks, judged by the verifier. Ranks share
// this machine's first GPU where a variant allows that, and have one each where there are as many.
//
// Skipped where there is no GPU. CLUSTERBENCH_GPU_SUBSET=small keeps problems and ranks few enough
// for compute-sanitizer.
#include "harness/judge/qualification.hpp"
#include "harness/judge/verifier.hpp"
#include "harness/machine/nvml.hpp"
#include "tests/gpu/run_on_gpu.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <iostream>
#include <iterator>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>

namespace clusterbench {
namespace {

// Ranks that share a device wait for one another: none of them may wait for the driver to load a
// kernel, which waits for all that run. As the harness does for several GPUs.
const int g_eager = setenv("CUDA_MODULE_LOADING", "EAGER", 1);
// Nor may a stream of one rank wait in a queue of the hardware behind one of another.
const int g_queues = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);

bool small_subset() {
  return std::getenv("CLUSTERBENCH_GPU_SUBSET") != nullptr;
}

struct Size {
  std::size_t n, d, k;
};

/// Overlapping normal clouds, the rows of a cloud together, so that ranks see different data; the
/// initial centroids are rows at equal distances.
OwnedProblem<float> clouds(Size size, StopRule stop) {
  OwnedProblem<float> problem;
  problem.n = size.n;
  problem.d = size.d;
  problem.k = size.k;
  problem.stop = stop;
  problem.name = "n=" + std::to_string(size.n) + " d=" + std::to_string(size.d) +
                 " k=" + std::to_string(size.k) +
                 " stop=" + std::to_string(static_cast<int>(stop.kind));
  std::mt19937_64 random(size.n + 1000 * size.d + 1000000 * size.k);
  std::normal_distribution<float> normal;
  std::vector<float> middles(std::min<std::size_t>(size.k, 7) * size.d);
  std::ranges::generate(middles, [&] { return 3.0f * normal(random); });
  const std::size_t count = middles.size() / size.d;
  for (std::size_t i = 0; i < size.n; ++i) {
    for (std::size_t f = 0; f < size.d; ++f) {
      problem.points.push_back(middles[i * count / size.n * size.d + f] + normal(random));
    }
  }
  for (std::size_t j = 0; j < size.k; ++j) {
    const auto row =
        problem.points.begin() + static_cast<std::ptrdiff_t>(j * size.n / size.k * size.d);
    problem.centroids.insert(problem.centroids.end(), row,
                             row + static_cast<std::ptrdiff_t>(size.d));
  }
  return problem;
}

/// The first third of the rows is one small cloud, from which all centroids start, and the others
/// are so much farther away: centroids come to lie far beyond a rank's own points.
OwnedProblem<float> far_shares(Size size, float away) {
  OwnedProblem<float> problem = clouds(size, {StopRule::Kind::iterations, 0.0, 4});
  problem.name += " far shares " + std::to_string(away);
  for (std::size_t e = 0; e < size.n * size.d; ++e) {
    const bool near = e / size.d < size.n / 3;
    problem.points[e] = near ? 0.01f * problem.points[e] : problem.points[e] + away;
  }
  std::copy_n(problem.points.begin(), size.k * size.d, problem.centroids.begin());
  return problem;
}

std::vector<OwnedProblem<float>> awkward_problems() {
  const StopRule few{StopRule::Kind::iterations, 0.0, 4};
  std::vector<OwnedProblem<float>> problems;
  for (const Size& size : {Size{1, 3, 1}, Size{2, 3, 2}, Size{3, 1, 2}, Size{33, 9, 5},
                           Size{257, 2, 16}, Size{1025, 16, 31}, Size{1023, 100, 257}}) {
    problems.push_back(clouds(size, few));
  }
  // Few features and many have other exchanges.
  for (const Size& middle : {Size{1025, 9, 7}, Size{1025, 20, 7}}) {
    problems.push_back(clouds(middle, {StopRule::Kind::loss, 20.0, 30}));
    problems.push_back(clouds(middle, {StopRule::Kind::labels, 0.0, 30}));
    problems.push_back(clouds(middle, {StopRule::Kind::shift, 1e-3, 30}));
  }
  for (const float away : {30.0f, 1e5f}) { // with room in the rounded copy, and without
    problems.push_back(far_shares({3001, 20, 7}, away));
    problems.push_back(far_shares({3001, 3, 130}, away));
  }
  if (!small_subset()) {
    for (const std::size_t d : {9, 20}) {
      for (const std::size_t n : {1, 2}) { // fewer than ranks: empty shards
        problems.push_back(clouds({n, d, 1}, {StopRule::Kind::labels, 0.0, 30}));
        problems.push_back(clouds({n, d, n}, {StopRule::Kind::loss, 1e-3, 30}));
      }
    }
    problems.push_back(clouds({1000003, 9, 16}, few));
    problems.push_back(clouds({300001, 3, 40}, {StopRule::Kind::shift, 1e-3, 60}));
    problems.push_back(clouds({5000, 1000, 7}, few));
    problems.push_back(clouds({70001, 128, 100}, {StopRule::Kind::labels, 0.0, 20}));
    problems.push_back(clouds({100003, 2, 5}, {StopRule::Kind::loss, 1.0, 60}));
    problems.push_back(clouds({200003, 32, 1024}, few));
    for (OwnedProblem<float>& problem : qualification_problems<float>(Family::kmeans)) {
      if (problem.weights.empty()) { // which none of these variants takes
        problems.push_back(std::move(problem));
      }
    }
  }
  return problems;
}

OwnedProblem<float> fuzzy(Size size, StopRule stop, double fuzzifier = 2.0) {
  OwnedProblem<float> problem = clouds(size, stop);
  problem.fuzzifier = fuzzifier;
  problem.name += " m=" + std::to_string(fuzzifier);
  return problem;
}

/// The same from memberships, none of them 0.
OwnedProblem<float> from_memberships(OwnedProblem<float> problem) {
  problem.name += " from memberships";
  problem.centroids.clear();
  std::mt19937_64 random(problem.n);
  std::uniform_real_distribution<float> uniform(0.1f, 1.0f);
  problem.memberships.resize(problem.n * problem.k);
  for (std::size_t i = 0; i < problem.n; ++i) {
    const std::span row = std::span(problem.memberships).subspan(i * problem.k, problem.k);
    std::ranges::generate(row, [&] { return uniform(random); });
    const float sum = std::accumulate(row.begin(), row.end(), 0.0f);
    std::ranges::transform(row, row.begin(), [sum](float value) { return value / sum; });
  }
  return problem;
}

std::vector<OwnedProblem<float>> fuzzy_problems() {
  const StopRule few{StopRule::Kind::iterations, 0.0, 4};
  std::vector<OwnedProblem<float>> starts;
  for (const Size& size : {Size{1, 3, 1}, Size{2, 3, 2}, Size{3, 1, 2}, Size{33, 9, 5},
                           Size{257, 2, 16}, Size{1023, 100, 3}}) {
    starts.push_back(fuzzy(size, few));
  }
  starts.push_back(fuzzy({1025, 20, 7}, few, 1.5));
  for (const StopRule::Kind kind :
       {StopRule::Kind::loss, StopRule::Kind::labels, StopRule::Kind::shift}) {
    starts.push_back(fuzzy({1025, 20, 7}, {kind, 1e-2, 30}));
    starts.push_back(fuzzy({2, 20, 1}, {kind, 1e-3, 30})); // fewer rows than ranks
  }
  if (!small_subset()) {
    starts.push_back(fuzzy({300001, 9, 16}, few));
    starts.push_back(fuzzy({1000003, 32, 8}, few));
    starts.push_back(fuzzy({100003, 64, 5}, {StopRule::Kind::loss, 1.0, 30}));
    starts.push_back(fuzzy({20011, 500, 8}, few, 3.0));
    starts.push_back(fuzzy({70001, 512, 2}, {StopRule::Kind::shift, 1e-3, 20}));
  }
  std::vector<OwnedProblem<float>> problems;
  for (OwnedProblem<float>& problem : starts) {
    problems.push_back(from_memberships(problem));
    problems.push_back(std::move(problem));
  }
  if (!small_subset()) {
    std::ranges::move(qualification_problems<float>(Family::fcm), std::back_inserter(problems));
  }
  return problems;
}

/// Ranks on devices, in words.
struct Ranks {
  const char* name;
  std::vector<int> devices;
};

std::vector<Ranks> ranks_here() {
  const unsigned count = gpu_count();
  std::vector<Ranks> ranks = {{"one rank", {0}}};
  if (!small_subset() || count < 2) {
    ranks.push_back({"two ranks on one device", {0, 0}});
  }
  if (!small_subset()) {
    ranks.push_back({"three ranks on one device", {0, 0, 0}});
  }
  if (count > 1) {
    std::vector<int> all(count);
    std::iota(all.begin(), all.end(), 0);
    ranks.push_back({"a rank on each device", all});
  }
  return ranks;
}

/// Three recorded runs, two of one object and one of another, which have to give the same.
OwnedAnswer<float> answer_of(const RegisteredVariant& variant, const Problem<float>& problem,
                             const std::vector<int>& devices) {
  OnGpu<float> object(variant, problem, devices);
  OwnedAnswer<float> first = object.run();
  OwnedAnswer<float> recorded = object.run_recorded();
  first.recorded = recorded.recorded; // a run that is not recorded has none
  expect_same(recorded, first);
  expect_same(OnGpu<float>(variant, problem, devices).run_recorded(), first);
  return first;
}

void expect_right_over_all_ranks(const RegisteredVariant& variant) {
  const Meta& meta = variant.meta;
  const std::vector<Ranks> all = ranks_here();
  std::vector<std::size_t> taken(all.size());
  std::vector<std::string> refusals(all.size());
  for (const OwnedProblem<float>& owned :
       meta.family == Family::fcm ? fuzzy_problems() : awkward_problems()) {
    const Problem<float> problem = owned.view();
    std::optional<OracleRun> oracle; // of nothing that all refuse
    for (std::size_t r = 0; r < all.size(); ++r) {
      SCOPED_TRACE(meta.name + ", " + all[r].name + ": " + owned.name);
      std::cout << owned.name << ", " << all[r].name << std::endl; // where it hangs, if it does
      try {
        const auto answer = answer_of(variant, problem, all[r].devices);
        if (!oracle) {
          oracle = run_oracle(meta.family, problem);
        }
        const Verdict verdict = verify_answer(meta, problem, answer.view(), *oracle,
                                              {.judges_precision = false}); // as qualification
        EXPECT_TRUE(verdict.right()) << verdict.message();
        ++taken[r];
      } catch (const Refusal& refused) {
        refusals[r] = refused.what();
      }
    }
  }
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::cout << all[r].name << ": " << taken[r] << " problems taken"
              << (refusals[r].empty() ? "" : "; others: " + refusals[r]) << "\n";
    EXPECT_TRUE(taken[r] > 0 || !refusals[r].empty());
  }
}

using CudaRanks = NamedGpuVariant;

TEST_P(CudaRanks, AwkwardSizesStopRulesAndEmptyShards) {
  expect_right_over_all_ranks(variant());
}

/// fcm_nccl with sums that the host copies, so that ranks may share a device.
class CopiedSums : public testing::Test {
protected:
  void SetUp() override {
    const auto file = module_file(program_folder() / "tests/modules", "fcm_copied_sums");
    if (const std::string reason = why_skipped("fcm_nccl"); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    if (!std::filesystem::exists(file)) {
      GTEST_SKIP() << file << " was not built";
    }
    variant_ = &load_module(file);
  }
  const RegisteredVariant& variant() const { return *variant_; }

private:
  const RegisteredVariant* variant_ = nullptr;
};

TEST_F(CopiedSums, AwkwardSizesStopRulesAndEmptyShards) {
  expect_right_over_all_ranks(variant());
}

// Sums are added up by rank, whoever brings them.
TEST_F(CopiedSums, GiveTheBitsOfNccl) {
  for (const Ranks& ranks : ranks_here()) {
    for (const bool memberships : {false, true}) {
      OwnedProblem<float> owned = fuzzy({1025, 20, 7}, {StopRule::Kind::loss, 1e-2, 30});
      owned = memberships ? from_memberships(owned) : owned;
      try {
        OnGpu<float> by_nccl(built_variant("fcm_nccl"), owned.view(), ranks.devices);
        SCOPED_TRACE(ranks.name);
        expect_same(OnGpu<float>(variant(), owned.view(), ranks.devices).run_recorded(),
                    by_nccl.run_recorded());
      } catch (const Refusal& refused) {
        std::cout << ranks.name << ": " << refused.what() << "\n";
      }
    }
  }
}

// Where no device writes to another one's memory, the host copies: the same to the bit.
TEST(CudaRanksByCopies, GiveTheSame) {
  if (const std::string reason = why_skipped("kmeans_nvlink"); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  const RegisteredVariant& variant = built_variant("kmeans_nvlink");
  for (const StopRule::Kind kind : {StopRule::Kind::loss, StopRule::Kind::labels}) {
    const OwnedProblem<float> owned = clouds({1025, 20, 7}, {kind, 1.0, 20});
    const std::vector<int> devices = gpu_count() > 1 ? std::vector{0, 1} : std::vector{0, 0};
    OnGpu<float> writing(variant, owned.view(), devices);
    const auto expected = writing.run_recorded();
    EXPECT_NE(writing.chosen_path().find("2 ranks"), std::string::npos) << writing.chosen_path();
    ASSERT_EQ(setenv("CLUSTERBENCH_NO_PEER_WRITES", "1", 1), 0);
    OnGpu<float> copying(variant, owned.view(), devices);
    ASSERT_EQ(unsetenv("CLUSTERBENCH_NO_PEER_WRITES"), 0);
    expect_same(copying.run_recorded(), expected);
    EXPECT_NE(copying.chosen_path().find("copied by the host"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaRanks,
                         testing::Values("kmeans_nvlink", "kmeans_nvlink_out_of_core",
                                         "kmeans_nvlink_persistent", "kmeans_nccl", "fcm_nccl"));

} // namespace
} // namespace clusterbench
