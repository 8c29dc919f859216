// kmeans_cuda_out_of_core and kmeans_nvlink_out_of_core on this machine's GPUs: what
// kmeans_cuda_wgmma answers from points on the device, to the bit. Sizes lie around its tiles, of
// which the smallest has 31,744 rows on 132 multiprocessors. Ranks share a GPU, and have one each
// where there are two.
//
// Skipped where there is no GPU.
#include "harness/machine/nvml.hpp"
#include "harness/worker/placed_array.hpp"
#include "tests/gpu/run_on_gpu.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <sys/mman.h>

namespace clusterbench {
namespace {

constexpr const char *kName = "kmeans_cuda_out_of_core", *kRanked = "kmeans_nvlink_out_of_core";

// For ranks that share a device, see test_cuda_ranks.cpp.
const int g_eager = setenv("CUDA_MODULE_LOADING", "EAGER", 1);
const int g_queues = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);

/// Overlapping clouds around a few points; every ninth row is a copy, and a few lie near a
/// bisector.
OwnedProblem<float> clouds(std::size_t n, std::size_t d, std::size_t k, StopRule stop) {
  OwnedProblem<float> problem;
  problem.n = n;
  problem.d = d;
  problem.k = k;
  problem.stop = stop;
  std::mt19937_64 random(n + 100 * d + 10000 * k);
  std::normal_distribution<float> normal;
  std::vector<float> middles(std::max<std::size_t>(k / 3, 1) * d);
  std::ranges::generate(middles, [&] { return 2.0f * normal(random); });
  problem.points.resize(n * d);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t cloud = random() % (middles.size() / d);
    for (std::size_t f = 0; f < d; ++f) {
      problem.points[i * d + f] =
          i % 9 == 8 ? problem.points[(i - 8) * d + f] : middles[cloud * d + f] + normal(random);
    }
  }
  problem.centroids.assign(problem.points.begin(),
                           problem.points.begin() + static_cast<std::ptrdiff_t>(k * d));
  for (std::size_t i = k; i + 1 < n; i += 50) {
    const std::size_t a = random() % k, b = random() % k;
    for (std::size_t f = 0; f < d; ++f) {
      problem.points[i * d + f] =
          0.5f * (problem.centroids[a * d + f] + problem.centroids[b * d + f]);
    }
  }
  return problem;
}

StopRule passes(std::size_t count) {
  return {StopRule::Kind::iterations, 0.0, count};
}

class OutOfCore : public testing::Test {
protected:
  void SetUp() override {
    for (const char* name : {kName, kRanked, "kmeans_cuda_wgmma"}) {
      if (const std::string reason = why_skipped(name); !reason.empty()) {
        GTEST_SKIP() << name << ": " << reason;
      }
    }
  }

  static void expect_same_as_resident(const OwnedProblem<float>& owned) {
    SCOPED_TRACE("n=" + std::to_string(owned.n) + " d=" + std::to_string(owned.d) +
                 " k=" + std::to_string(owned.k));
    const auto resident =
        OnGpu<float>(built_variant("kmeans_cuda_wgmma"), owned.view()).run_recorded();
    expect_same(repeated_answer(built_variant(kName), owned.view()), resident);
  }
  static void expect_same_over_ranks(const OwnedProblem<float>& owned) {
    const auto resident =
        OnGpu<float>(built_variant("kmeans_cuda_wgmma"), owned.view()).run_recorded();
    std::vector<std::vector<int>> all = {{0}, {0, 0}, {0, 0, 0}};
    if (gpu_count() > 1) {
      all.push_back({0, 1});
    }
    for (const std::vector<int>& devices : all) {
      SCOPED_TRACE("n=" + std::to_string(owned.n) + " d=" + std::to_string(owned.d) +
                   " k=" + std::to_string(owned.k) + " over " + std::to_string(devices.size()) +
                   " ranks, the last on GPU " + std::to_string(devices.back()));
      OnGpu<float> ranked(built_variant(kRanked), owned.view(), devices);
      expect_same(ranked.run_recorded(), resident);
      expect_same(ranked.run_recorded(), resident);
    }
  }
};

TEST_F(OutOfCore, AwkwardShapes) {
  const std::array<std::size_t, 3> shapes[] = {
      {1, 1, 1},          {3, 2, 3},           {129, 1, 2},      {257, 3, 5},
      {5000, 17, 129},    {31744, 5, 33},      {31745, 33, 127}, {63487, 7, 64},
      {95000, 64, 300},   {100003, 128, 1000}, {40000, 130, 70}, {33000, 1023, 40},
      {32000, 1024, 129}, {32001, 1100, 129}};
  for (const auto& [n, d, k] : shapes) {
    expect_same_as_resident(clouds(n, d, k, passes(5)));
  }
}

TEST_F(OutOfCore, EveryStopRule) {
  for (const StopRule& stop :
       {StopRule{StopRule::Kind::labels, 0.0, 40}, StopRule{StopRule::Kind::shift, 1e-2, 40},
        StopRule{StopRule::Kind::loss, 50.0, 40}}) {
    SCOPED_TRACE(static_cast<int>(stop.kind));
    expect_same_as_resident(clouds(70001, 12, 40, stop));
  }
}

// Of few rows: shards without any. Of many: several tiles a rank.
TEST_F(OutOfCore, RanksGiveTheSame) {
  const std::array<std::size_t, 3> shapes[] = {
      {1, 1, 1},        {2, 3, 2},           {257, 3, 5},      {63491, 7, 64},
      {95000, 64, 300}, {200003, 128, 1000}, {40000, 130, 70}, {32001, 1100, 129}};
  for (const auto& [n, d, k] : shapes) {
    expect_same_over_ranks(clouds(n, d, k, passes(5)));
  }
  for (const StopRule& stop :
       {StopRule{StopRule::Kind::labels, 0.0, 40}, StopRule{StopRule::Kind::shift, 1e-2, 40}}) {
    expect_same_over_ranks(clouds(140001, 12, 40, stop));
  }
}

TEST_F(OutOfCore, StartsFarBeyondThePoints) {
  OwnedProblem<float> problem = clouds(33001, 20, 50, passes(4));
  for (std::size_t e = 0; e < 10 * problem.d; ++e) {
    problem.centroids[e] *= 1e5f; // they stay empty, and float16 has to hold them
  }
  expect_same_as_resident(problem);
}

TEST_F(OutOfCore, EveryRowIsLeftOpen) {
  OwnedProblem<float> problem = clouds(40000, 8, 64, passes(3));
  for (std::size_t e = problem.d; e < problem.centroids.size(); ++e) {
    problem.centroids[e] = problem.centroids[e % problem.d]; // ties of all with all
  }
  expect_same_as_resident(problem);
}

// The harness's own rows can be written to. Others, such as those of a file, may not.
TEST_F(OutOfCore, RowsThatNobodyMayWriteTo) {
  const OwnedProblem<float> problem = clouds(50001, 24, 90, passes(4));
  const auto expected = OnGpu<float>(built_variant("kmeans_cuda_wgmma"), problem.view()).run();
  const std::size_t bytes = problem.points.size() * sizeof(float);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memcpy(memory, problem.points.data(), bytes);
  ASSERT_EQ(mprotect(memory, bytes, PROT_READ), 0);
  {
    const auto variant = variant_tests::make<float>(built_variant(kName));
    variant->prepare(problem.view().shape(),
                     {{static_cast<const float*>(memory), problem.points.size()}});
    PlacedArray<float> start(Place::device, problem.centroids.size());
    PlacedArray<float> centroids(Place::device, start.size()),
        entering(Place::device, start.size());
    PlacedArray<std::int32_t> labels(Place::device, problem.n);
    start.copy_from(problem.centroids);
    Answer<float> answer{labels.span(), centroids.span(), entering.span(), {}};
    Observer<float> nobody;
    variant->run({std::as_const(start).span(), {}}, answer, nobody);
    device_calls().synchronize();
    std::vector<std::int32_t> own_labels(problem.n);
    std::vector<float> own_centroids(start.size());
    labels.copy_to(own_labels);
    centroids.copy_to(own_centroids);
    EXPECT_EQ(own_labels, expected.labels);
    EXPECT_EQ(own_centroids, expected.centroids);
  }
  munmap(memory, bytes);
}

/// Takes the device's memory, the pool's too, until about so many bytes are left.
std::vector<PlacedArray<std::byte>> leave_about(std::size_t bytes) {
  std::vector<PlacedArray<std::byte>> taken;
  for (std::size_t size = std::size_t{4} << 30; size >= std::size_t{4} << 20;) {
    try {
      taken.emplace_back(Place::device, size);
    } catch (const std::runtime_error&) {
      size /= 2;
    }
  }
  std::size_t left = 0;
  for (; left < bytes && !taken.empty(); taken.pop_back()) {
    left += taken.back().size();
  }
  if (left > bytes) { // the last array was larger than what is wanted
    taken.emplace_back(Place::device, left - bytes);
  }
  return taken;
}

TEST_F(OutOfCore, HalfOfThePointsDoNotFit) {
  // 512 MB in half precision; two tiles, and what else is needed, are 120.
  const OwnedProblem<float> problem = clouds(2000003, 128, 50, passes(3));
  const auto expected =
      OnGpu<float>(built_variant("kmeans_cuda_wgmma"), problem.view()).run_recorded();
  const auto taken = leave_about(std::size_t{256} << 20);
  OnGpu<float> object(built_variant(kName), problem.view());
  EXPECT_EQ(object.chosen_path().find("all rows in every pass"), 0U) << object.chosen_path();
  expect_same(object.run_recorded(), expected);
}

TEST_F(OutOfCore, NotEvenTilesFit) {
  const OwnedProblem<float> problem = clouds(2000003, 128, 50, passes(1));
  const auto taken = leave_about(std::size_t{32} << 20);
  EXPECT_THROW(OnGpu<float>(built_variant(kName), problem.view()), Refusal);
}

} // namespace
} // namespace clusterbench
