// Every GPU variant of this program on this machine's GPU, in this process, judged by the verifier.
//
// Skipped where there is no GPU. CLUSTERBENCH_GPU_SUBSET=small keeps the problems small enough for
// compute-sanitizer, a number bounds n * d * k of the pairwise sizes instead of small's 2000000,
// and CLUSTERBENCH_GPU_VARIANT=<glob> takes only some of the variants:
//   CLUSTERBENCH_FOLDER=build CLUSTERBENCH_GPU_SUBSET=small
//     compute-sanitizer --tool racecheck build/tests/test_cuda_variants
#include "harness/judge/one_step_states.hpp"
#include "harness/judge/qualification.hpp"
#include "harness/judge/verifier.hpp"
#include "tests/gpu/run_on_gpu.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fnmatch.h>
#include <gtest/gtest.h>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <tuple>

namespace clusterbench {
namespace {

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

bool small_subset() {
  return environment("CLUSTERBENCH_GPU_SUBSET", "all") != "all";
}

/// The largest n * d * k of the small subset.
std::size_t small_size() {
  const std::string subset = environment("CLUSTERBENCH_GPU_SUBSET", "all");
  return subset == "small" ? 2000000 : std::stoul(subset);
}

/// A variant in one precision.
struct Cell {
  const KnownVariant* variant;
  Precision precision;

  std::string name() const { return variant->meta.name + "_" + std::string(to_string(precision)); }
};

/// Names the cell in the output of GoogleTest.
void PrintTo(const Cell& cell, std::ostream* out) {
  *out << cell.name();
}

std::vector<Cell> gpu_cells() {
  const std::string glob = environment("CLUSTERBENCH_GPU_VARIANT", "*");
  std::vector<Cell> cells;
  for (const KnownVariant* variant : all_variants()) {
    for (const Precision precision : {Precision::f32, Precision::f64}) {
      // Programs hold no modules; test_gpu_peers.py runs them as campaigns do.
      if (variant->meta.device == Device::gpu && !variant->is_program &&
          supports(*variant, precision) &&
          fnmatch(glob.c_str(), variant->meta.name.c_str(), 0) == 0) {
        cells.push_back({variant, precision});
      }
    }
  }
  return cells;
}

/// Prepares the variant, runs it timed, timed again and recorded, and verifies each answer: every
/// run has to restart from the initial state. False if the variant refuses the problem.
template <typename T>
bool check(const RegisteredVariant& registered, const std::string& what, const Problem<T>& problem,
           const OracleRun& oracle) {
  SCOPED_TRACE(registered.meta.name + " on " + what);
  if (!takes(registered, problem)) {
    return false;
  }
  const Meta& meta = registered.meta;
  OnGpu<T> object(registered, problem);
  const auto first = object.run();
  const auto second = object.run();
  Recorder<T> recorder(Place::device);
  auto third = object.run(recorder);
  if (meta.deterministic) {
    expect_same(second, first);
    expect_same(third, first);
  }
  third.recorded = recorder.passes();
  EXPECT_EQ(third.recorded.size(), third.iterations * problem.k * problem.d);
  EXPECT_FALSE(recorder.phases().empty());
  for (const OwnedAnswer<T>* answer : {&first, &second, &std::as_const(third)}) {
    const Verdict verdict = verify_answer(meta, problem, answer->view(), oracle,
                                          {.judges_precision = false}); // as the qualification does
    EXPECT_TRUE(verdict.right()) << verdict.message();
    EXPECT_FALSE(verdict.sampled && problem.n < 10000);
  }
  return true;
}

/// One pass from several states of the oracle's run.
template <typename T>
void check_steps(const RegisteredVariant& registered, const Problem<T>& problem,
                 const OracleRun& oracle) {
  for (const OneStepState<T>& state : one_step_states(registered.meta.family, problem, oracle)) {
    SCOPED_TRACE(registered.meta.name + " from " + state.name);
    const Problem<T> one_pass = one_pass_problem(problem, state);
    const auto answer = OnGpu<T>(registered, one_pass).run();
    // Expanded distances have no digits left for the qualification's data far from the origin: no
    // fault of the program.
    const bool precise = registered.meta.distance == DistanceForm::difference;
    const Verdict verdict =
        verify_one_step(registered.meta, one_pass, answer.view(), {.judges_precision = precise});
    EXPECT_TRUE(verdict.right()) << verdict.message();
  }
}

// --- problems ------------------------------------------------------------------------------------

/// Overlapping normal clouds. The initial centroids are the first points.
template <typename T>
OwnedProblem<T> clouds(std::size_t n, std::size_t d, std::size_t k, StopRule stop) {
  OwnedProblem<T> problem;
  problem.n = n;
  problem.d = d;
  problem.k = k;
  problem.stop = stop;
  problem.name = "n=" + std::to_string(n) + " d=" + std::to_string(d) + " k=" + std::to_string(k) +
                 " stop=" + std::to_string(static_cast<int>(stop.kind));
  std::mt19937_64 random(n + 1000 * d + 1000000 * k);
  std::normal_distribution<double> normal;
  std::vector<double> middles(std::min<std::size_t>(k, 7) * d);
  std::ranges::generate(middles, [&] { return 3.0 * normal(random); });
  problem.points.reserve(n * d);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t cloud = random() % (middles.size() / d);
    for (std::size_t f = 0; f < d; ++f) {
      problem.points.push_back(static_cast<T>(middles[cloud * d + f] + normal(random)));
    }
  }
  problem.centroids.assign(problem.points.begin(),
                           problem.points.begin() + static_cast<std::ptrdiff_t>(k * d));
  return problem;
}

constexpr std::array kKinds = {StopRule::Kind::iterations, StopRule::Kind::loss,
                               StopRule::Kind::labels, StopRule::Kind::shift};

StopRule rule_of(StopRule::Kind kind, std::size_t n) {
  const double size = static_cast<double>(n);
  switch (kind) {
  case StopRule::Kind::loss:
    return {kind, 0.02 * size, 4};
  case StopRule::Kind::shift:
    return {kind, 0.2, 4};
  default:
    return {kind, 0.0, 3};
  }
}

/// Indices of n, d, k and stop rule.
using Choice = std::array<std::size_t, 4>;

/// Sizes at which a lost tail, a full block and a partial warp show.
struct Sizes {
  std::size_t n, d, k;
};

Sizes sizes_of(const Choice& choice) {
  constexpr std::array<std::size_t, 6> kD = {1, 2, 3, 9, 100, 500};
  constexpr std::array<std::size_t, 7> kK = {1, 2, 5, 16, 31, 257, 1000};
  const std::size_t k = kK[choice[2]];
  const std::array<std::size_t, 7> n = {1, k, k + 1, 31, 33, 1023, 1025};
  return {n[choice[0]], kD[choice[1]], k};
}

/// Choices that together hold every possible pair of values: each is the one that adds most pairs.
std::vector<Choice> pairwise_choices() {
  const Choice counts = {7, 6, 7, 4};
  std::vector<Choice> candidates;
  for (std::size_t e = 0; e < counts[0] * counts[1] * counts[2] * counts[3]; ++e) {
    const Choice choice = {e % 7, e / 7 % 6, e / 42 % 7, e / 294};
    const Sizes sizes = sizes_of(choice);
    if (sizes.k <= sizes.n && (!small_subset() || sizes.n * sizes.d * sizes.k <= small_size())) {
      candidates.push_back(choice);
    }
  }
  using Pair = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;
  const auto pairs_of = [](const Choice& choice) {
    std::vector<Pair> pairs;
    for (std::size_t a = 0; a < choice.size(); ++a) {
      for (std::size_t b = a + 1; b < choice.size(); ++b) {
        pairs.emplace_back(a, choice[a], b, choice[b]);
      }
    }
    return pairs;
  };
  std::set<Pair> open;
  for (const Choice& choice : candidates) {
    for (const Pair& pair : pairs_of(choice)) {
      open.insert(pair);
    }
  }
  std::vector<Choice> chosen;
  while (!open.empty()) {
    const auto gain = [&](const Choice& choice) {
      return std::ranges::count_if(pairs_of(choice),
                                   [&](const Pair& pair) { return open.contains(pair); });
    };
    chosen.push_back(*std::ranges::max_element(candidates, {}, gain));
    for (const Pair& pair : pairs_of(chosen.back())) {
      open.erase(pair);
    }
  }
  return chosen;
}

/// A problem and the oracle's run of it, kept for all variants of a family.
template <typename T>
struct Solved {
  OwnedProblem<T> problem;
  OracleRun oracle;
};

template <typename T>
std::vector<Solved<T>> solved(Family family, std::vector<OwnedProblem<T>> problems) {
  std::vector<Solved<T>> list;
  for (OwnedProblem<T>& problem : problems) {
    OracleRun oracle = run_oracle(family, problem.view());
    list.push_back({std::move(problem), std::move(oracle)});
  }
  return list;
}

template <typename T>
const std::vector<Solved<T>>& pairwise_problems(Family family) {
  static std::map<Family, std::vector<Solved<T>>> kept;
  if (!kept.contains(family)) {
    std::vector<OwnedProblem<T>> problems;
    for (const Choice& choice : pairwise_choices()) {
      const Sizes sizes = sizes_of(choice);
      problems.push_back(clouds<T>(sizes.n, sizes.d, sizes.k, rule_of(kKinds[choice[3]], sizes.n)));
    }
    if (!small_subset()) { // so many features that nothing keeps a tile of rows
      problems.push_back(clouds<T>(1025, 2047, 31, rule_of(StopRule::Kind::labels, 1025)));
    }
    kept[family] = solved(family, std::move(problems));
  }
  return kept[family];
}

template <typename T>
const std::vector<Solved<T>>& qualification(Family family) {
  static std::map<Family, std::vector<Solved<T>>> kept;
  if (!kept.contains(family)) {
    kept[family] = solved(family, qualification_problems<T>(family));
  }
  return kept[family];
}

/// A million points and three: the last block of any power of two is nearly empty.
template <typename T>
const std::vector<Solved<T>>& million(Family family) {
  static std::map<Family, std::vector<Solved<T>>> kept;
  if (!kept.contains(family)) {
    const StopRule stop{StopRule::Kind::iterations, 0.0, small_subset() ? 1u : 3u};
    std::vector<OwnedProblem<T>> problems;
    problems.push_back(clouds<T>(1000003, small_subset() ? 1 : 3, small_subset() ? 2 : 16, stop));
    if (!small_subset()) { // one cluster away from the origin: the hardest sum for a float
      problems.push_back(clouds<T>(1000003, 2, 1, stop));
      for (T& value : problems.back().points) {
        value += T{10};
      }
      std::ranges::copy_n(problems.back().points.begin(), 2, problems.back().centroids.begin());
    }
    kept[family] = solved(family, std::move(problems));
  }
  return kept[family];
}

// --- tests ---------------------------------------------------------------------------------------

class GpuVariants : public testing::TestWithParam<Cell> {
protected:
  void SetUp() override {
    if (const std::string reason = unavailable_reason(*GetParam().variant); !reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }
  const RegisteredVariant& variant() const { return built_variant(GetParam().variant->meta.name); }

  /// Calls body with a value of the cell's element type.
  template <typename Body>
  void in_precision(Body body) const {
    if (GetParam().precision == Precision::f32) {
      body(float{});
    } else {
      body(double{});
    }
  }

  /// How many of them the variant takes.
  template <typename T>
  std::size_t check_all(const std::vector<Solved<T>>& problems) const {
    std::size_t taken = 0;
    for (const Solved<T>& one : problems) {
      taken += check(variant(), one.problem.name, one.problem.view(), one.oracle) ? 1 : 0;
    }
    std::cout << taken << " of " << problems.size() << " problems, the others are refused\n";
    return taken;
  }
};

TEST_P(GpuVariants, PairwiseSizesAndStopRules) {
  in_precision([this](auto zero) {
    EXPECT_GT(check_all(pairwise_problems<decltype(zero)>(variant().meta.family)), 0u);
  });
}

TEST_P(GpuVariants, QualificationProblemsAndSinglePasses) {
  if (small_subset()) {
    GTEST_SKIP() << "not in the small subset";
  }
  in_precision([this](auto zero) {
    const auto& problems = qualification<decltype(zero)>(variant().meta.family);
    EXPECT_GT(check_all(problems), 0u);
    for (const auto& one : problems) {
      if (takes(variant(), one.problem.view())) {
        check_steps(variant(), one.problem.view(), one.oracle);
      }
    }
  });
}

TEST_P(GpuVariants, AMillionPointsAndThree) {
  in_precision([this](auto zero) {
    if (check_all(million<decltype(zero)>(variant().meta.family)) == 0) {
      GTEST_SKIP() << "refuses them all"; // some leave few features to others
    }
  });
}

// Where labels have few bits, the last cluster is not taken for a point that has none yet.
TEST_P(GpuVariants, AsManyClustersAsItTakes) {
  const Meta& meta = variant().meta;
  if (meta.max_k > 65536) {
    GTEST_SKIP() << "takes any number";
  }
  in_precision([&, this](auto zero) {
    using T = decltype(zero);
    const std::size_t d = std::clamp<std::size_t>(2, meta.min_d, meta.max_d);
    const StopRule stop{StopRule::Kind::iterations, 0.0, 2};
    const OwnedProblem<T> problem = clouds<T>(2 * meta.max_k, d, meta.max_k, stop);
    const OracleRun oracle = run_oracle(meta.family, problem.view());
    if (!check(variant(), problem.name, problem.view(), oracle)) {
      GTEST_SKIP() << "refuses so few points or features";
    }
  });
}

// What does not fit is refused in words, not taken another way: prepare() is never asked.
TEST_P(GpuVariants, RefusesInWordsOrTakesIt) {
  if (small_subset()) {
    GTEST_SKIP() << "not in the small subset";
  }
  in_precision([this](auto zero) {
    using T = decltype(zero);
    const StopRule stop{StopRule::Kind::iterations, 0.0, 1};
    const OwnedProblem<T> problem = clouds<T>(600, 1000, 500, stop); // centroids of 2 or 4 MB
    const auto refusal = refusal_of_shape<T>(variant(), problem.view().shape());
    if (refusal.empty()) {
      const Family family = variant().meta.family;
      check(variant(), problem.name, problem.view(), run_oracle(family, problem.view()));
    } else {
      EXPECT_GT(refusal.size(), 20u) << refusal;
      EXPECT_NE(refusal.find_first_of("0123456789"), std::string::npos)
          << "no numbers: " << refusal;
    }
  });
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GpuVariants); // a build without CUDA has none
INSTANTIATE_TEST_SUITE_P(All, GpuVariants, testing::ValuesIn(gpu_cells()),
                         [](const auto& cell) { return cell.param.name(); });

} // namespace
} // namespace clusterbench
