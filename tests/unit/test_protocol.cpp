// What the harness and a worker say to one another, and the memory that they share for it.
#include "harness/campaign/cell_memory.hpp"
#include "harness/problem/description.hpp"
#include "harness/worker/protocol.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace clusterbench {
namespace {

using nlohmann::json;

// ---- requests

PointsRequest request() {
  PointsRequest request;
  request.precision = "f64";
  request.shape.n = std::numeric_limits<std::size_t>::max();
  request.shape.d = 3;
  request.shape.k = 5;
  request.shape.stop = {
      .kind = StopRule::Kind::shift, .threshold = 1.0 / 3.0, .max_iterations = 17};
  request.shape.fuzzifier = 1.1;
  request.shape.starts_from_memberships = true;
  request.shape.threads = 4;
  request.rotate = 11;
  request.points = "/proc/self/fd/3";
  request.weights = "/proc/self/fd/9";
  request.start = "/proc/self/fd/4";
  request.labels = "/proc/self/fd/5";
  request.centroids = "/proc/self/fd/6";
  request.memberships = "/proc/self/fd/7";
  request.record = "/proc/self/fd/8";
  return request;
}

TEST(PointsRequest, TextAndBack) {
  const std::string text = to_json(request()).dump();
  const PointsRequest back = points_request_from(json::parse(text));
  EXPECT_EQ(to_json(back).dump(), text);
  EXPECT_EQ(back.precision, "f64");
  EXPECT_EQ(back.shape.n, request().shape.n);
  EXPECT_EQ(back.shape.stop.kind, StopRule::Kind::shift);
  EXPECT_EQ(back.shape.stop.threshold, 1.0 / 3.0);
  EXPECT_EQ(back.shape.stop.max_iterations, 17U);
  EXPECT_EQ(back.shape.fuzzifier, 1.1);
  EXPECT_TRUE(back.shape.starts_from_memberships);
  EXPECT_EQ(back.shape.threads, 4);
  EXPECT_EQ(back.rotate, 11U);
  EXPECT_EQ(back.labels, "/proc/self/fd/5");
  EXPECT_EQ(back.weights, "/proc/self/fd/9");
  EXPECT_TRUE(back.shape.weighted);
  EXPECT_EQ(back.record, "/proc/self/fd/8");
}

TEST(PointsRequest, WhatNobodyWantsIsNull) {
  PointsRequest without = request();
  without.memberships.clear();
  without.record.clear();
  without.weights.clear();
  const json line = to_json(without);
  EXPECT_TRUE(line.at("answer").at("entering").is_null());
  EXPECT_TRUE(line.at("answer").at("memberships").is_null());
  EXPECT_TRUE(line.at("record").is_null());
  EXPECT_TRUE(line.at("weights").is_null());
  const PointsRequest back = points_request_from(line);
  EXPECT_EQ(back.entering, "");
  EXPECT_EQ(back.memberships, "");
  EXPECT_EQ(back.record, "");
  EXPECT_EQ(back.weights, "");
  EXPECT_FALSE(back.shape.weighted);
}

TEST(PointsRequest, EveryStopRuleHasAWord) {
  for (const auto kind : {StopRule::Kind::iterations, StopRule::Kind::loss, StopRule::Kind::labels,
                          StopRule::Kind::shift}) {
    PointsRequest of_kind = request();
    of_kind.shape.stop.kind = kind;
    EXPECT_EQ(points_request_from(to_json(of_kind)).shape.stop.kind, kind);
  }
}

TEST(PointsRequest, WhatIsMissingOrUnknownThrows) {
  const json whole = to_json(request());
  for (const auto& [field, unused] : whole.items()) {
    if (field == "request" || field == "weights") { // older harnesses know no weights
      continue;
    }
    json line = whole;
    line.erase(field);
    EXPECT_ANY_THROW(points_request_from(line)) << field;
  }
  json line = whole;
  line["stop"]["rule"] = "never";
  EXPECT_ANY_THROW(points_request_from(line));
}

TEST(RunnerSetup, TextAndBack) {
  const RunnerSetup setup{.parent = 4321,
                          .memory_limit = std::size_t{1} << 40,
                          .file_limit = 77,
                          .sandboxed = false,
                          .own_network = true,
                          .children_write_to_proc = true,
                          .hidden = {"/a folder", "/\"quoted\""},
                          .scratch = "/scratch",
                          .report = 9};
  const std::string text = to_json(setup).dump();
  const RunnerSetup back = runner_setup_from(json::parse(text));
  EXPECT_EQ(to_json(back).dump(), text);
  EXPECT_EQ(back.parent, 4321);
  EXPECT_EQ(back.memory_limit, std::size_t{1} << 40);
  EXPECT_FALSE(back.sandboxed);
  EXPECT_TRUE(back.own_network);
  EXPECT_TRUE(back.children_write_to_proc);
  EXPECT_EQ(back.hidden, setup.hidden);
  EXPECT_EQ(back.report, 9);
}

// ---- descriptions of modules

RegisteredVariant registered() {
  RegisteredVariant variant;
  variant.meta = {.name = "fcm_x",
                  .idea = "an idea",
                  .source = "a paper",
                  .family = Family::fcm,
                  .device = Device::gpu,
                  .arithmetic = Arithmetic::bf16,
                  .multiplier = Multiplier::tensor_f16,
                  .distance = DistanceForm::expanded,
                  .labels = LabelsFrom::returned_centroids,
                  .deterministic = false,
                  .approximate_within = 0.125,
                  .reseeds_empty = true,
                  .points_on_host = true,
                  .takes_weights = true,
                  .min_d = 2,
                  .max_d = 8,
                  .max_k = 16,
                  .previous = "fcm_y"};
  variant.factories.f32 = [] { return std::unique_ptr<Variant<float>>(); };
  variant.file = "impls/x/fcm_x.cpp";
  return variant;
}

TEST(Description, AModulesMetaIsReadBackAsItIs) {
  const RegisteredVariant variant = registered();
  const KnownVariant known = variant_from(json::parse(describe(variant).dump()), variant.file);
  const Meta& a = variant.meta;
  const Meta& b = known.meta;
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.idea, b.idea);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.family, b.family);
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.arithmetic, b.arithmetic);
  EXPECT_EQ(a.multiplier, b.multiplier);
  EXPECT_EQ(a.distance, b.distance);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.deterministic, b.deterministic);
  EXPECT_EQ(a.approximate_within, b.approximate_within);
  EXPECT_EQ(a.reseeds_empty, b.reseeds_empty);
  EXPECT_EQ(a.points_on_host, b.points_on_host);
  EXPECT_EQ(a.takes_weights, b.takes_weights);
  EXPECT_EQ(a.min_d, b.min_d);
  EXPECT_EQ(a.max_d, b.max_d);
  EXPECT_EQ(a.max_k, b.max_k);
  EXPECT_EQ(a.previous, b.previous);
  EXPECT_EQ(known.file, variant.file);
  EXPECT_EQ(known.precisions, std::vector{Precision::f32});
  EXPECT_EQ(known.stops.size(), 4U);
  EXPECT_TRUE(known.starts_from_centroids && known.starts_from_memberships);
  EXPECT_TRUE(known.records && known.gives_entering);
  EXPECT_FALSE(known.is_program);
}

TEST(Description, NoBoundsStayNone) {
  RegisteredVariant variant = registered();
  variant.meta.max_d = variant.meta.max_k = std::numeric_limits<std::size_t>::max();
  const KnownVariant known = variant_from(json::parse(describe(variant).dump()), variant.file);
  EXPECT_EQ(known.meta.max_d, std::numeric_limits<std::size_t>::max());
  EXPECT_EQ(known.meta.max_k, std::numeric_limits<std::size_t>::max());
}

// ---- the memory of one problem

constexpr std::size_t kRows = 5, kFeatures = 2, kClusters = 3;

Shape shape(bool from_memberships = false) {
  return {.n = kRows,
          .d = kFeatures,
          .k = kClusters,
          .stop = {},
          .starts_from_memberships = from_memberships};
}

std::vector<float> counted(std::size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

/// A file of shared memory as a worker opens it.
template <typename T>
class Opened {
public:
  explicit Opened(const std::string& path) : file_(open(path.c_str(), O_RDWR | O_CLOEXEC)) {}
  ~Opened() { close(file_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  std::vector<T> read(std::size_t size) const {
    std::vector<T> values(size);
    EXPECT_EQ(pread(file_, values.data(), size * sizeof(T), 0),
              static_cast<ssize_t>(size * sizeof(T)));
    return values;
  }
  bool write(const std::vector<T>& values) const {
    return pwrite(file_, values.data(), values.size() * sizeof(T), 0) ==
           static_cast<ssize_t>(values.size() * sizeof(T));
  }
  bool truncate(off_t bytes) const { return ftruncate(file_, bytes) == 0; }

private:
  int file_;
};

TEST(CellMemory, AWorkerFindsPointsAndStartAndCannotChangeThem) {
  const std::vector<float> points = counted(kRows * kFeatures);
  const SharedMemory sealed = sealed_copy<float>("points", points);
  CellMemory<float> memory(shape(), Family::kmeans, sealed, true);
  const std::vector<float> start = counted(kClusters * kFeatures);
  memory.put_start(start);
  const PointsRequest asked = memory.request(2);
  EXPECT_EQ(asked.precision, "f32");
  EXPECT_EQ(asked.rotate, 2U);
  EXPECT_EQ(asked.shape.n, kRows);
  EXPECT_EQ(asked.memberships, "");
  const Opened<float> their_points(asked.points), their_start(asked.start);
  EXPECT_EQ(their_points.read(points.size()), points);
  EXPECT_EQ(their_start.read(start.size()), start);
  EXPECT_FALSE(their_points.write({9.0F}));
  EXPECT_FALSE(their_start.write({9.0F}));
  EXPECT_FALSE(Opened<float>(asked.labels).truncate(0));
  const std::vector<float> next(start.rbegin(), start.rend());
  memory.put_start(next); // only the parent can
  EXPECT_EQ(their_start.read(next.size()), next);
}

TEST(CellMemory, AWorkerFindsWeightsAndCannotChangeThem) {
  const std::vector<float> weights = counted(kRows);
  const SharedMemory points = sealed_copy<float>("points", counted(kRows * kFeatures));
  const SharedMemory sealed = sealed_copy<float>("weights", weights);
  Shape weighted = shape();
  weighted.weighted = true;
  const CellMemory<float> memory(weighted, Family::kmeans, points, true, &sealed);
  EXPECT_EQ(std::ranges::count(memory.descriptors(), sealed.fd()), 1);
  const Opened<float> theirs(memory.request().weights);
  EXPECT_EQ(theirs.read(weights.size()), weights);
  EXPECT_FALSE(theirs.write({9.0F}));
  const CellMemory<float> without(shape(), Family::kmeans, points, true, &sealed);
  EXPECT_EQ(without.request().weights, "");
}

TEST(CellMemory, WhatAWorkerLeavesIsPoison) {
  const SharedMemory points = sealed_copy<float>("points", counted(kRows * kFeatures));
  CellMemory<float> memory(shape(), Family::fcm, points, true);
  memory.put_start(counted(kClusters * kFeatures));
  EXPECT_TRUE(Opened<std::int32_t>(memory.request().labels).write({0, 1, 2, 0, 1}));
  TakenAnswer<float> answer = memory.answer(4);
  EXPECT_EQ(answer.iterations, 4U);
  EXPECT_EQ(answer.labels, (std::vector<std::int32_t>{0, 1, 2, 0, 1}));
  const auto is_nan = [](float value) { return std::isnan(value); };
  EXPECT_EQ(answer.centroids.size(), kClusters * kFeatures);
  EXPECT_TRUE(std::ranges::all_of(answer.centroids, is_nan));
  EXPECT_TRUE(std::ranges::all_of(answer.entering, is_nan));
  EXPECT_EQ(answer.memberships.size(), kRows * kClusters);
  EXPECT_TRUE(std::ranges::all_of(answer.memberships, is_nan));
  memory.put_start(counted(kClusters * kFeatures)); // an answer of the run before is none
  EXPECT_EQ(memory.answer(4).labels, (std::vector<std::int32_t>(kRows, -1)));
}

TEST(CellMemory, AnAnswerOfRotatedRowsIsTurnedBack) {
  const SharedMemory points = sealed_copy<float>("points", counted(kRows * kFeatures));
  CellMemory<float> memory(shape(), Family::fcm, points, false);
  const PointsRequest asked = memory.request(2);
  EXPECT_EQ(asked.entering, "");
  memory.put_start(counted(kClusters * kFeatures));
  // The worker's row i is ours (i + 2) mod 5: it saw rows 2, 3, 4, 0, 1.
  ASSERT_TRUE(Opened<std::int32_t>(asked.labels).write({2, 3, 4, 0, 1}));
  std::vector<float> memberships;
  for (const float row : {2.0F, 3.0F, 4.0F, 0.0F, 1.0F}) {
    memberships.insert(memberships.end(), {row, row + 0.25F, row + 0.5F});
  }
  ASSERT_TRUE(Opened<float>(asked.memberships).write(memberships));
  const TakenAnswer<float> answer = memory.answer(1, 2);
  for (std::size_t i = 0; i < kRows; ++i) {
    EXPECT_EQ(answer.labels[i], static_cast<std::int32_t>(i));
    EXPECT_EQ(answer.memberships[i * kClusters + 1], static_cast<float>(i) + 0.25F);
  }
}

TEST(CellMemory, MembershipsAreTheStartWhereARunBeginsFromThem) {
  const SharedMemory points = sealed_copy<double>("points", std::vector<double>(10));
  CellMemory<double> memory(shape(true), Family::fcm, points, true);
  std::vector<double> start(kRows * kClusters, 0.5);
  memory.put_start(start);
  const PointsRequest asked = memory.request();
  EXPECT_EQ(asked.precision, "f64");
  EXPECT_TRUE(asked.shape.starts_from_memberships);
  EXPECT_EQ(Opened<double>(asked.start).read(start.size()), start);
}

TEST(CellMemory, ARecordGrowsAsTheWorkerWrites) {
  const SharedMemory points = sealed_copy<float>("points", counted(kRows * kFeatures));
  const CellMemory<float> memory(shape(), Family::kmeans, points, true);
  EXPECT_TRUE(memory.recorded().empty());
  const std::vector<float> passes = counted(7 * kClusters * kFeatures);
  ASSERT_TRUE(Opened<float>(memory.request().record).write(passes));
  EXPECT_EQ(memory.recorded(), passes);
}

TEST(CellMemory, AllOfItIsInherited) {
  const SharedMemory points = sealed_copy<float>("points", counted(kRows * kFeatures));
  const CellMemory<float> memory(shape(), Family::fcm, points, true);
  const PointsRequest asked = memory.request();
  std::vector<std::string> paths;
  for (const int descriptor : memory.descriptors()) {
    paths.push_back("/proc/self/fd/" + std::to_string(descriptor));
  }
  for (const std::string& path : {asked.points, asked.start, asked.labels, asked.centroids,
                                  asked.entering, asked.memberships, asked.record}) {
    EXPECT_TRUE(std::ranges::find(paths, path) != paths.end()) << path;
  }
}

TEST(TakenAnswer, DifferencesAreOfAllButWhatEntered) {
  TakenAnswer<float> answer;
  answer.labels = {0, 1};
  answer.centroids = {1.0F, 2.0F};
  answer.entering = {0.0F, 0.0F};
  answer.memberships = {0.5F, 0.5F};
  answer.iterations = 2;
  TakenAnswer<float> other = answer;
  other.entering[0] = 1.0F;
  EXPECT_EQ(difference_in_bits(answer, other), "");
  answer.centroids[0] = 0.0F;
  other.centroids[0] = -0.0F; // equal numbers, other bits
  EXPECT_EQ(difference_in_bits(answer, other), "centroids[0]: 0 and -0");
  other = answer;
  other.labels[1] = 0;
  EXPECT_EQ(difference_in_bits(answer, other), "labels[1]: 1 and 0");
  other = answer;
  other.iterations = 3;
  EXPECT_EQ(difference_in_bits(answer, other), "2 and 3 iterations");
  other = answer;
  other.memberships.pop_back();
  EXPECT_EQ(difference_in_bits(answer, other), "memberships: 2 and 1 values");
}

TEST(CellMemory, MembershipsTurnWithThePoints) {
  const SharedMemory points = sealed_copy<float>("points", counted(kRows * kFeatures));
  Shape from_memberships = shape();
  from_memberships.starts_from_memberships = true;
  CellMemory<float> memory(from_memberships, Family::fcm, points, true);
  const std::vector<float> start = counted(kRows * kClusters);
  memory.put_start(start, /*rotate=*/1);
  const std::vector<float> seen = Opened<float>(memory.request().start).read(kRows * kClusters);
  EXPECT_EQ(std::vector<float>(seen.begin(), seen.begin() + kClusters),
            std::vector<float>(start.begin() + kClusters, start.begin() + 2 * kClusters));
  EXPECT_EQ(std::vector<float>(seen.end() - kClusters, seen.end()),
            std::vector<float>(start.begin(), start.begin() + kClusters));
}

} // namespace
} // namespace clusterbench
