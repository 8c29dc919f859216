// What a variant for devices is given and what is taken from it, on devices that are host memory.
#include "harness/worker/device_memory.hpp"
#include "harness/worker/session.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

constexpr std::size_t kFeatures = 2, kClusters = 3;

/// What a test wants to happen in a run beside an honest answer, and what the variant has seen.
struct Probe {
  std::function<void(std::span<Answer<float>>)> at_the_end = [](auto) {};
  Shape shape;
  std::vector<Shard<float>> shards;
  bool was_poisoned = true;
};

/// Labels a row by its first feature, and leaves the start as centroids.
class Probing final : public ShardedVariant<float> {
public:
  explicit Probing(Probe& probe) : probe_(probe) {}
  void prepare_shards(const Shape& shape, std::span<const Shard<float>> shards) override {
    probe_.shape = shape;
    probe_.shards.assign(shards.begin(), shards.end());
  }
  void run_shards(std::span<const Start<float>> starts, std::span<Answer<float>> answers,
                  Observer<float>&) override {
    for (std::size_t r = 0; r < answers.size(); ++r) {
      const auto poisoned = [](const auto& values, auto is_poison) {
        return std::ranges::all_of(values, is_poison);
      };
      const auto is_nan = [](float value) { return std::isnan(value); };
      probe_.was_poisoned = probe_.was_poisoned && poisoned(answers[r].centroids, is_nan) &&
                            poisoned(answers[r].entering, is_nan) &&
                            poisoned(answers[r].labels, [](auto label) { return label == -1; });
      const std::span<const float> rows = probe_.shards[r].points.rows;
      for (std::size_t i = 0; i < answers[r].labels.size(); ++i) {
        answers[r].labels[i] = static_cast<std::int32_t>(rows[i * kFeatures]);
      }
      std::ranges::copy(starts[r].centroids, answers[r].centroids.begin());
      std::ranges::copy(starts[r].centroids, answers[r].entering.begin());
      answers[r].iterations = 4;
    }
    probe_.at_the_end(answers);
  }

private:
  Probe& probe_;
};

class ShardedSession : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    setenv("CLUSTERBENCH_FOLDER",
           (std::string(std::getenv("CLUSTERBENCH_TOOLS")) + "/fake").c_str(), 1);
  }
  ShardedSession() {
    variant_.meta = {.name = "kmeans_probing",
                     .idea = "",
                     .source = "",
                     .device = Device::multi_gpu,
                     .previous = ""};
    variant_.factories.f32 = [this] { return std::make_unique<Probing>(probe_); };
  }

  Session<float> session(std::size_t n, std::vector<int> devices, bool weighted = false) {
    points_.resize(n * kFeatures);
    std::iota(points_.begin(), points_.end(), 0.0F);
    labels_.assign(n, -2);
    const Shape shape{.n = n, .d = kFeatures, .k = kClusters, .stop = {}, .weighted = weighted};
    return {variant_, "/no/modules", shape, devices};
  }
  void take(Session<float>& session) { session.take({labels_, centroids_, entering_, {}, 0}); }
  void expect_the_answer(std::size_t rotate = 0) const {
    const std::size_t n = labels_.size();
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(labels_[i], static_cast<std::int32_t>((i + rotate) % n * kFeatures)) << i;
    }
    EXPECT_EQ(centroids_, start_);
    EXPECT_EQ(entering_, start_);
  }

  Probe probe_;
  RegisteredVariant variant_;
  std::vector<float> points_, start_ = {5, 4, 3, 2, 1, 0}, centroids_ = std::vector<float>(6),
                              entering_ = std::vector<float>(6);
  std::vector<std::int32_t> labels_;
  Observer<float> nobody_;
};

TEST_F(ShardedSession, GivesEveryDeviceItsRowsAndPutsTheAnswerTogether) {
  for (const std::size_t n : {1, 2, 3, 7, 100}) {
    for (const std::vector<int>& devices :
         {std::vector{0}, std::vector{0, 1}, std::vector{0, 1, 2}, std::vector{0, 0, 0, 1}}) {
      SCOPED_TRACE(std::to_string(n) + " rows, " + std::to_string(devices.size()) + " shards");
      Session<float> session = this->session(n, devices, /*weighted=*/true);
      std::vector<float> weights(n);
      std::iota(weights.begin(), weights.end(), 1.0F);
      session.take_points(points_, 0, weights);
      session.prepare();
      EXPECT_EQ(probe_.shape.n, n);
      EXPECT_EQ(probe_.shape.world, static_cast<int>(devices.size()));
      ASSERT_EQ(probe_.shards.size(), devices.size());
      std::size_t next = 0;
      for (std::size_t r = 0; r < devices.size(); ++r) {
        const Shard<float>& shard = probe_.shards[r];
        EXPECT_EQ(shard.device, devices[r]);
        EXPECT_EQ(shard.points.first_row, next);
        for (std::size_t e = 0; e < shard.points.rows.size(); ++e) {
          EXPECT_EQ(shard.points.rows[e], points_[next * kFeatures + e]);
        }
        ASSERT_EQ(shard.points.weights.size(), shard.points.rows.size() / kFeatures);
        for (std::size_t i = 0; i < shard.points.weights.size(); ++i) {
          EXPECT_EQ(shard.points.weights[i], weights[next + i]);
        }
        next += shard.points.rows.size() / kFeatures;
      }
      EXPECT_EQ(next, n);
      for (int runs = 0; runs < 2; ++runs) {
        session.run({start_, {}}, nobody_);
        take(session);
        expect_the_answer();
        EXPECT_EQ(session.iterations(), 4u);
        EXPECT_TRUE(probe_.was_poisoned);
      }
    }
  }
}

TEST_F(ShardedSession, WholeAnswersOfRotatedRows) {
  Session<float> session = this->session(10, {0, 1, 2});
  session.take_points(points_, 4);
  session.run_whole({start_, {}});
  take(session);
  expect_the_answer(4);
  const Windows& windows = session.windows();
  EXPECT_GT(windows.upload, 0.0);
  EXPECT_GT(windows.download, 0.0);
  EXPECT_GE(windows.whole, windows.upload + windows.prepare + windows.run + windows.download);
}

TEST_F(ShardedSession, RowsThatNobodyHasAsAWholeComeInPieces) {
  const std::size_t n = 3'000'001; // 24 MB, of which a piece has 8
  const auto fill = [&](RowRange rows, std::span<float> values) {
    EXPECT_LE(values.size_bytes(), std::size_t{8} << 20);
    std::ranges::copy(std::span(points_).subspan(rows.first * kFeatures, rows.count * kFeatures),
                      values.begin());
  };
  for (const std::vector<int>& devices : {std::vector{0}, std::vector{0, 1, 2}}) {
    Session<float> session = this->session(n, devices);
    for (const std::size_t rotate : {std::size_t{0}, std::size_t{7}, n - 1}) {
      session.take_rows(n, rotate, fill);
      session.run_whole({start_, {}});
      std::size_t first = 0;
      for (const Shard<float>& shard : probe_.shards) {
        std::vector<float> rows(shard.points.rows.size());
        device_calls().download(shard.device, rows.data(), shard.points.rows.data(),
                                rows.size() * sizeof(float));
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < rows.size(); ++i) {
          wrong += rows[i] != points_[(first + rotate * kFeatures + i) % points_.size()] ? 1 : 0;
        }
        EXPECT_EQ(wrong, 0U) << "turned by " << rotate;
        first += rows.size();
      }
      EXPECT_EQ(first, points_.size());
    }
  }
}

TEST_F(ShardedSession, RowsThatCannotBeReadAreAnError) {
  Session<float> session = this->session(10, {0, 1});
  session.take_rows(10, 3, [](RowRange, std::span<float>) {
    throw std::runtime_error("the file ends"); // as a disk may fail whenever it is read
  });
  EXPECT_THROW(session.prepare(), std::runtime_error);
  session.take_points(points_, 3);
  session.run_whole({start_, {}});
  take(session);
  expect_the_answer(3);
}

TEST_F(ShardedSession, CentroidsThatDifferAreNoAnswer) {
  for (const bool entering : {false, true}) {
    Session<float> session = this->session(10, {0, 1, 2});
    session.take_points(points_, 0);
    session.prepare();
    probe_.at_the_end = [entering](std::span<Answer<float>> answers) {
      (entering ? answers[2].entering : answers[2].centroids).back() =
          -0.0F; // equal, with other bits
    };
    session.run({start_, {}}, nobody_);
    EXPECT_THROW(take(session), std::runtime_error);
  }
}

/// A variant of one device that keeps what it was given.
class OneDevice final : public Variant<float> {
public:
  explicit OneDevice(Points<float>& points) : points_(points) {}
  void prepare(const Shape&, const Points<float>& points) override { points_ = points; }
  void run(const Start<float>&, Answer<float>&, Observer<float>&) override {}

private:
  Points<float>& points_;
};

TEST_F(ShardedSession, WeightsLieOnTheDeviceBesideTheirPoints) {
  Points<float> given;
  variant_.meta.device = Device::gpu;
  variant_.factories.f32 = [&] { return std::make_unique<OneDevice>(given); };
  const std::size_t n = 7;
  std::vector<float> weights(n), rows(n * kFeatures);
  std::iota(weights.begin(), weights.end(), 1.0F);
  Session<float> session = this->session(n, {0}, /*weighted=*/true);
  for (const std::size_t rotate : {0, 3, 0}) {
    session.take_points(points_, rotate, weights);
    session.prepare();
    ASSERT_EQ(given.weights.size(), n);
    // Copies that throw where the memory is not the device's.
    std::vector<float> there(n);
    const auto* at = given.weights.data();
    device_calls().download(0, there.data(), at, n * sizeof(float));
    device_calls().download(0, rows.data(), given.rows.data(), rows.size() * sizeof(float));
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(there[i], weights[(i + rotate) % n]);
      EXPECT_EQ(rows[i * kFeatures], points_[(i + rotate) % n * kFeatures]);
    }
    // Who writes to them has written to a copy, which the next object does not see.
    device_calls().fill(0, const_cast<float*>(at), 0xFF, n * sizeof(float));
  }
}

/// Labels rows in host memory, for a start on the device.
class HostPoints final : public Variant<float> {
public:
  void prepare(const Shape&, const Points<float>& points) override { points_ = points; }
  void run(const Start<float>& start, Answer<float>& answer, Observer<float>&) override {
    EXPECT_THROW(download(points_.rows), std::runtime_error); // no memory of a device
    EXPECT_THROW(download(points_.weights), std::runtime_error);
    std::vector<std::int32_t> labels(answer.labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i] = static_cast<std::int32_t>(points_.rows[i * kFeatures]);
    }
    const std::vector<float> centroids = download(start.centroids);
    upload(answer.labels, labels);
    upload(answer.centroids, centroids);
    upload(answer.entering, centroids);
  }

private:
  static std::vector<float> download(std::span<const float> from) {
    std::vector<float> to(from.size());
    device_calls().download(0, to.data(), from.data(), from.size_bytes());
    return to;
  }
  template <typename V>
  static void upload(std::span<V> to, const std::vector<V>& from) {
    device_calls().upload(0, to.data(), from.data(), to.size_bytes());
  }
  Points<float> points_;
};

TEST_F(ShardedSession, PointsThatAVariantWantsOnTheHostStayThere) {
  variant_.meta.device = Device::gpu;
  variant_.meta.points_on_host = true;
  variant_.factories.f32 = [] { return std::make_unique<HostPoints>(); };
  Session<float> session = this->session(7, {0}, /*weighted=*/true);
  session.take_points(points_, 2, std::vector<float>(7, 1.0F));
  session.run_whole({start_, {}});
  take(session);
  expect_the_answer(2);
  EXPECT_EQ(session.windows().upload, 0.0);
  EXPECT_GT(session.windows().download, 0.0);
}

/// Labels rows in host memory, for starts on several devices.
class HostShards final : public ShardedVariant<float> {
public:
  explicit HostShards(std::vector<Shard<float>>& shards) : shards_(shards) {}
  void prepare_shards(const Shape&, std::span<const Shard<float>> shards) override {
    shards_.assign(shards.begin(), shards.end());
  }
  void run_shards(std::span<const Start<float>> starts, std::span<Answer<float>> answers,
                  Observer<float>&) override {
    for (std::size_t r = 0; r < answers.size(); ++r) {
      const int device = shards_[r].device;
      std::vector<std::int32_t> labels(answers[r].labels.size());
      for (std::size_t i = 0; i < labels.size(); ++i) {
        labels[i] = static_cast<std::int32_t>(shards_[r].points.rows[i * kFeatures]);
      }
      std::vector<float> centroids(starts[r].centroids.size());
      device_calls().download(device, centroids.data(), starts[r].centroids.data(),
                              starts[r].centroids.size_bytes());
      if (!labels.empty()) {
        device_calls().upload(device, answers[r].labels.data(), labels.data(),
                              answers[r].labels.size_bytes());
      }
      for (const auto& target : {answers[r].centroids, answers[r].entering}) {
        device_calls().upload(device, target.data(), centroids.data(), target.size_bytes());
      }
    }
  }

private:
  std::vector<Shard<float>>& shards_;
};

// A device may lock the pages of its shard, which works once a page.
TEST_F(ShardedSession, ShardsInHostMemoryHavePagesOfTheirOwn) {
  std::vector<Shard<float>> given;
  variant_.meta.points_on_host = true;
  variant_.factories.f32 = [&] { return std::make_unique<HostShards>(given); };
  const std::vector<int> devices = {0, 1, 2};
  for (const std::size_t n : {2, 3, 100}) {
    SCOPED_TRACE(n);
    Session<float> session = this->session(n, devices, /*weighted=*/true);
    std::vector<float> weights(n);
    std::iota(weights.begin(), weights.end(), 1.0F);
    for (const std::size_t rotate : {std::size_t{0}, n - 1, std::size_t{1}}) {
      session.take_points(points_, rotate, weights);
      session.run_whole({start_, {}});
      EXPECT_EQ(session.windows().upload, 0.0);
      std::size_t next = 0;
      std::set<std::uintptr_t> pages;
      for (const Shard<float>& shard : given) {
        EXPECT_EQ(shard.points.first_row, next);
        const std::span<const float> rows = shard.points.rows;
        ASSERT_EQ(shard.points.weights.size() * kFeatures, rows.size());
        for (std::size_t e = 0; e < rows.size(); ++e) {
          const std::size_t row = (next + e / kFeatures + rotate) % n;
          EXPECT_EQ(rows[e], points_[row * kFeatures + e % kFeatures]);
          EXPECT_EQ(shard.points.weights[e / kFeatures], weights[row]);
        }
        if (!rows.empty()) {
          EXPECT_TRUE(pages.insert(reinterpret_cast<std::uintptr_t>(rows.data()) / 4096).second);
        }
        next += rows.size() / kFeatures;
      }
      EXPECT_EQ(next, n);
      take(session);
      expect_the_answer(rotate);
    }
  }
}

TEST_F(ShardedSession, ADeviceThatIsNotThereIsAnError) {
  EXPECT_THROW(session(10, {0, 3}), std::runtime_error);
}

} // namespace
} // namespace clusterbench
