// One variant on one set of points: what it is given, what is taken from it, and what is timed.
#include "harness/worker/session.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace clusterbench {
namespace {

constexpr std::size_t kRows = 7, kFeatures = 2, kClusters = 3;
constexpr double kWork = 0.02; // seconds, as in tests/modules/delegate.cpp

Shape shape() {
  return {.n = kRows, .d = kFeatures, .k = kClusters, .stop = {}};
}

void work() {
  std::this_thread::sleep_for(std::chrono::duration<double>(kWork));
}

std::vector<float> counted(std::size_t size, float first = 0.0F) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), first);
  return values;
}

template <typename Values>
std::size_t nans(const Values& values) {
  return static_cast<std::size_t>(
      std::ranges::count_if(values, [](float value) { return std::isnan(value); }));
}

/// What a test wants to happen in a variant, and what the variant has seen.
struct Probe {
  std::function<void(const Shape&, const Points<float>&)> on_prepare = [](auto&, auto&) {};
  std::function<void(const Start<float>&, Answer<float>&)> on_run = [](auto&, auto&) {};
  std::function<void()> on_end = [] {};
  std::string refusal;
  std::size_t made = 0, alive = 0, most_alive = 0;
};

class Probing final : public Variant<float> {
public:
  explicit Probing(Probe& probe) : probe_(probe) {
    ++probe_.made;
    probe_.most_alive = std::max(probe_.most_alive, ++probe_.alive);
  }
  ~Probing() override {
    probe_.on_end();
    --probe_.alive;
  }
  std::string refuse(const Shape&) const override { return probe_.refusal; }
  void prepare(const Shape& shape, const Points<float>& points) override {
    probe_.on_prepare(shape, points);
  }
  void run(const Start<float>& start, Answer<float>& answer, Observer<float>&) override {
    probe_.on_run(start, answer);
  }
  std::string chosen_path() const override { return "a path"; }

private:
  Probe& probe_;
};

/// Writes every element: labels 0, centroids and those that entered as the start.
void answer_with_start(const Start<float>& start, Answer<float>& answer) {
  std::ranges::fill(answer.labels, 0);
  std::ranges::copy(start.centroids, answer.centroids.begin());
  std::ranges::copy(start.centroids, answer.entering.begin());
  std::ranges::fill(answer.memberships, 0.5F);
  answer.iterations = 3;
}

RegisteredVariant probing(Probe& probe, Family family = Family::kmeans) {
  RegisteredVariant variant;
  variant.meta = {
      .name = "kmeans_probing", .idea = "", .source = "", .family = family, .previous = ""};
  variant.factories.f32 = [&probe] { return std::make_unique<Probing>(probe); };
  return variant;
}

/// A session, and an answer as it was taken.
class SessionTest : public ::testing::Test {
protected:
  Session<float>& session(const Shape& of = shape()) {
    if (!session_) {
      session_ = std::make_unique<Session<float>>(variant_, "/no/modules", of);
    }
    return *session_;
  }
  void prepare(std::size_t rotate = 0) {
    session().take_points(points_, rotate);
    session().prepare();
  }
  void run() {
    Observer<float> nobody;
    session().run({start_, {}}, nobody);
  }
  void take() { session().take({labels_, centroids_, entering_, memberships_, 0}); }

  Probe probe_;
  RegisteredVariant variant_ = probing(probe_);
  std::unique_ptr<Session<float>> session_; // goes first
  std::vector<float> points_ = counted(kRows * kFeatures);
  std::vector<float> start_ = counted(kClusters * kFeatures, 100.0F);
  std::vector<std::int32_t> labels_ = std::vector<std::int32_t>(kRows);
  std::vector<float> centroids_ = std::vector<float>(kClusters * kFeatures);
  std::vector<float> entering_ = std::vector<float>(kClusters * kFeatures);
  std::vector<float> memberships_;
};

TEST_F(SessionTest, AnAnswerIsCopiedOut) {
  probe_.on_run = answer_with_start;
  prepare();
  run();
  take();
  EXPECT_EQ(labels_, std::vector<std::int32_t>(kRows, 0));
  EXPECT_EQ(centroids_, start_);
  EXPECT_EQ(entering_, start_);
  EXPECT_EQ(session().iterations(), 3U);
  EXPECT_EQ(session().chosen_path(), "a path");
}

TEST_F(SessionTest, WhatNobodyWantsIsNotCopied) {
  probe_.on_run = answer_with_start;
  prepare();
  run();
  session().take({labels_, centroids_, {}, {}, 0});
  EXPECT_EQ(entering_, std::vector<float>(kClusters * kFeatures));
}

// ---- poison

TEST_F(SessionTest, EveryRunFindsPoison) {
  std::size_t fresh = 0;
  probe_.on_run = [&](const Start<float>& start, Answer<float>& answer) {
    fresh += static_cast<std::size_t>(std::ranges::count(answer.labels, -1)) +
             nans(answer.centroids) + nans(answer.entering);
    EXPECT_EQ(answer.labels.size(), kRows);
    EXPECT_EQ(answer.centroids.size(), kClusters * kFeatures);
    EXPECT_TRUE(answer.memberships.empty());
    EXPECT_EQ(answer.iterations, 0U);
    answer_with_start(start, answer);
  };
  prepare();
  run();
  take();
  run();
  run(); // the answer before was not taken
  session().take_points(points_, 0);
  session().run_whole({start_, {}});
  EXPECT_EQ(fresh, 4 * (kRows + 2 * kClusters * kFeatures));
}

TEST_F(SessionTest, WhatIsNotWrittenStaysPoison) {
  std::size_t runs = 0;
  probe_.on_run = [&](const Start<float>& start, Answer<float>& answer) {
    if (++runs == 1) {
      answer_with_start(start, answer);
    } else {
      answer.labels[0] = 7;
    }
  };
  prepare();
  run();
  take();
  run();
  take();
  EXPECT_EQ(labels_[0], 7);
  EXPECT_EQ(std::ranges::count(labels_, -1), kRows - 1);
  EXPECT_EQ(nans(centroids_), centroids_.size());
  EXPECT_EQ(nans(entering_), entering_.size());
}

TEST_F(SessionTest, ARunThatFailedLeavesNothing) {
  bool fails = true;
  probe_.on_run = [&](const Start<float>& start, Answer<float>& answer) {
    EXPECT_EQ(std::ranges::count(answer.labels, -1), kRows);
    answer_with_start(start, answer);
    if (std::exchange(fails, false)) {
      throw std::runtime_error("once");
    }
  };
  prepare();
  EXPECT_THROW(run(), std::runtime_error);
  run();
  take();
  EXPECT_EQ(centroids_, start_);
}

// ---- the closed answer

TEST_F(SessionTest, NobodyWritesToAnAnswerAfterItsRun) {
  std::span<std::int32_t> labels;
  std::span<float> centroids, entering;
  probe_.on_run = [&](const Start<float>& start, Answer<float>& answer) {
    answer_with_start(start, answer);
    labels = answer.labels;
    centroids = answer.centroids;
    entering = answer.entering;
    EXPECT_FALSE(is_in_closed_answer(labels.data()));
  };
  prepare();
  for (int repeated = 0; repeated < 2; ++repeated) {
    run();
    for (const void* address :
         {static_cast<const void*>(&labels.front()), static_cast<const void*>(&labels.back()),
          static_cast<const void*>(&centroids.front()),
          static_cast<const void*>(&entering.back())}) {
      EXPECT_TRUE(is_in_closed_answer(address));
    }
    EXPECT_FALSE(is_in_closed_answer(labels.data() + labels.size()));
    EXPECT_FALSE(is_in_closed_answer(labels_.data()));
    EXPECT_EXIT(labels[0] = 1, ::testing::KilledBySignal(SIGSEGV), "");
    EXPECT_EXIT(entering[0] = 1.0F, ::testing::KilledBySignal(SIGSEGV), "");
    EXPECT_EQ(labels[0], 0); // reading is harmless
    take();
    EXPECT_FALSE(is_in_closed_answer(labels.data()));
  }
}

TEST_F(SessionTest, NorAfterAWholeOne) {
  std::span<float> centroids;
  probe_.on_run = [&](const Start<float>& start, Answer<float>& answer) {
    answer_with_start(start, answer);
    centroids = answer.centroids;
  };
  session().take_points(points_, 0);
  session().run_whole({start_, {}});
  EXPECT_TRUE(is_in_closed_answer(centroids.data()));
  EXPECT_EXIT(centroids[0] = 1.0F, ::testing::KilledBySignal(SIGSEGV), "");
  take();
  EXPECT_EQ(centroids_, start_);
}

// ---- the points

TEST_F(SessionTest, PointsAreRotatedAndLieElsewhereEachTime) {
  std::vector<float> seen;
  const float* address = nullptr;
  probe_.on_prepare = [&](const Shape& given, const Points<float>& points) {
    EXPECT_EQ(given.n, kRows);
    EXPECT_EQ(points.first_row, 0U);
    EXPECT_NE(points.rows.data(), address);
    address = points.rows.data();
    seen.assign(points.rows.begin(), points.rows.end());
  };
  for (const std::size_t rotate : {0, 1, 3, 6, 0}) {
    prepare(rotate);
    ASSERT_EQ(seen.size(), points_.size());
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t f = 0; f < kFeatures; ++f) {
        EXPECT_EQ(seen[i * kFeatures + f], points_[(i + rotate) % kRows * kFeatures + f]);
      }
    }
  }
}

TEST_F(SessionTest, WeightsTurnWithThePointsAndLieElsewhereEachTime) {
  Shape weighted = shape();
  weighted.weighted = true;
  const std::vector<float> weights = counted(kRows, 50.0F);
  const float* address = nullptr;
  std::size_t rotate = 0;
  probe_.on_prepare = [&](const Shape& given, const Points<float>& points) {
    EXPECT_TRUE(given.weighted);
    EXPECT_NE(points.weights.data(), address);
    address = points.weights.data();
    ASSERT_EQ(points.weights.size(), kRows);
    for (std::size_t i = 0; i < kRows; ++i) {
      EXPECT_EQ(points.weights[i], weights[(i + rotate) % kRows]);
      EXPECT_EQ(points.rows[i * kFeatures], points_[(i + rotate) % kRows * kFeatures]);
    }
  };
  for (rotate = 0; rotate < kRows; ++rotate) {
    session(weighted).take_points(points_, rotate, weights);
    session().prepare();
  }
}

TEST_F(SessionTest, WritingToThePointsChangesOnlyItsOwnCopy) {
  probe_.on_prepare = [&](const Shape&, const Points<float>& points) {
    const_cast<float&>(points.rows[0]) = 99.0F;
  };
  prepare();
  EXPECT_EQ(points_, counted(kRows * kFeatures));
}

TEST_F(SessionTest, WithNewPointsNothingIsPrepared) {
  probe_.on_run = answer_with_start;
  EXPECT_THROW(run(), Refusal);
  prepare();
  run();
  session().take_points(points_, 1);
  EXPECT_EQ(probe_.alive, 0U);
  try {
    run();
    ADD_FAILURE();
  } catch (const Refusal& refusal) {
    EXPECT_STREQ(refusal.what(), "it is not prepared");
  }
}

TEST_F(SessionTest, EveryPreparationIsOfAFreshObject) {
  std::span<const float> points;
  probe_.on_prepare = [&](const Shape&, const Points<float>& given) { points = given.rows; };
  float sum = 0.0F;
  probe_.on_end = [&] { sum += std::accumulate(points.begin(), points.end(), 0.0F); };
  for (int i = 0; i < 3; ++i) {
    prepare();
  }
  session().prepare();
  EXPECT_EQ(probe_.made, 4U);
  EXPECT_EQ(probe_.most_alive, 1U); // the memory of the one before is free
  session_.reset();
  EXPECT_EQ(probe_.alive, 0U);
  // Its points outlive an object.
  EXPECT_EQ(sum, 4.0F * std::accumulate(points_.begin(), points_.end(), 0.0F));
}

// ---- the start

TEST_F(SessionTest, EveryRunGetsItsOwnStart) {
  std::vector<float> seen;
  probe_.on_run = [&](const Start<float>& start, Answer<float>& answer) {
    EXPECT_TRUE(start.memberships.empty());
    seen.assign(start.centroids.begin(), start.centroids.end());
    answer_with_start(start, answer);
  };
  prepare();
  for (const float first : {1.0F, 50.0F}) {
    start_ = counted(start_.size(), first);
    run();
    EXPECT_EQ(seen, start_);
    take();
    EXPECT_EQ(centroids_, start_);
  }
}

TEST(Session, FuzzyRunsStartFromMembershipsOrCentres) {
  for (const bool from_memberships : {false, true}) {
    Probe probe;
    const RegisteredVariant variant = probing(probe, Family::fcm);
    Shape of = shape();
    of.starts_from_memberships = from_memberships;
    Session<float> session(variant, "/no/modules", of);
    const std::vector<float> points = counted(kRows * kFeatures);
    const std::vector<float> start = counted(kClusters * (from_memberships ? kRows : kFeatures));
    probe.on_run = [&](const Start<float>& given, Answer<float>& answer) {
      EXPECT_TRUE((from_memberships ? given.centroids : given.memberships).empty());
      EXPECT_TRUE(
          std::ranges::equal(from_memberships ? given.memberships : given.centroids, start));
      EXPECT_EQ(nans(answer.memberships), kRows * kClusters);
      std::ranges::fill(answer.memberships, 0.25F);
    };
    session.take_points(points, 0);
    session.prepare();
    Observer<float> nobody;
    Start<float> given;
    (from_memberships ? given.memberships : given.centroids) = start;
    session.run(given, nobody);
    std::vector<float> memberships(kRows * kClusters);
    session.take({{}, {}, {}, memberships, 0});
    EXPECT_EQ(memberships, std::vector<float>(kRows * kClusters, 0.25F));
  }
}

// ---- the clock

TEST_F(SessionTest, EachWindowIsTimedByItself) {
  probe_.on_prepare = [](const Shape&, const Points<float>&) { work(); };
  prepare();
  EXPECT_GE(session().windows().prepare, kWork);
  EXPECT_EQ(session().windows().run, 0.0);
  probe_.on_run = [](const Start<float>& start, Answer<float>& answer) {
    work();
    work();
    answer_with_start(start, answer);
  };
  run();
  EXPECT_GE(session().windows().run, 2 * kWork);
  EXPECT_EQ(session().windows().upload, 0.0); // nothing of it happens in host memory
  EXPECT_EQ(session().windows().download, 0.0);
}

TEST_F(SessionTest, AWholeAnswerIsOneWindow) {
  probe_.on_prepare = [](const Shape&, const Points<float>&) { work(); };
  probe_.on_run = [](const Start<float>& start, Answer<float>& answer) {
    work();
    answer_with_start(start, answer);
  };
  session().take_points(points_, 2);
  session().run_whole({start_, {}});
  const Windows windows = session().windows();
  EXPECT_GE(windows.prepare, kWork);
  EXPECT_GE(windows.run, kWork);
  EXPECT_EQ(windows.upload + windows.download, 0.0);
  EXPECT_GE(windows.whole, windows.prepare + windows.run);
  EXPECT_EQ(session().iterations(), 3U);
  take();
  EXPECT_EQ(centroids_, start_);
  EXPECT_EQ(probe_.made, 1U);
  session().take_points(points_, 3);
  session().run_whole({start_, {}});
  EXPECT_EQ(probe_.made, 2U); // a fresh object each time
}

// ---- refusals and failures

TEST_F(SessionTest, WhatAVariantRefusesOrThrowsIsPassedOn) {
  probe_.refusal = "not this shape";
  try {
    prepare();
    ADD_FAILURE();
  } catch (const Refusal& refusal) {
    EXPECT_STREQ(refusal.what(), "not this shape");
  }
  probe_.refusal.clear();
  probe_.on_prepare = [](const Shape&, const Points<float>&) { throw std::bad_alloc(); };
  EXPECT_THROW(prepare(), std::bad_alloc);
  EXPECT_THROW(run(), Refusal); // it is not prepared
  probe_.on_prepare = [](const Shape&, const Points<float>&) {};
  probe_.on_run = [](const Start<float>&, Answer<float>&) { throw Refusal("not this start"); };
  prepare();
  EXPECT_THROW(run(), Refusal);
  probe_.on_run = answer_with_start; // another start may do
  run();
  take();
  EXPECT_EQ(centroids_, start_);
}

TEST(Session, APrecisionThatAVariantLacksIsRefused) {
  Probe probe;
  const RegisteredVariant variant = probing(probe);
  Session<double> session(variant, "/no/modules", shape());
  session.take_points(std::vector<double>(kRows * kFeatures), 0);
  try {
    session.prepare();
    ADD_FAILURE();
  } catch (const Refusal& refusal) {
    EXPECT_STREQ(refusal.what(), "kmeans_probing has no f64 form");
  }
}

// ---- variants that only choose

class Chooser final : public Variant<float> {
public:
  explicit Chooser(std::vector<std::string> names) : names_(std::move(names)) {}
  void prepare(const Shape&, const Points<float>&) override { ADD_FAILURE(); }
  void run(const Start<float>&, Answer<float>&, Observer<float>&) override { ADD_FAILURE(); }
  std::string chosen_path() const override { return "never asked"; }
  std::vector<std::string> delegates(const Shape&) const override { return names_; }

private:
  std::vector<std::string> names_;
};

class Delegating : public ::testing::Test {
protected:
  void choose(std::vector<std::string> names, bool weighted = false) {
    variant_.meta = {.name = "kmeans_chooses", .idea = "", .source = "", .previous = ""};
    variant_.factories.f32 = [names = std::move(names)] {
      return std::make_unique<Chooser>(names);
    };
    const auto modules = std::filesystem::path(std::getenv("CLUSTERBENCH_TOOLS")) / "modules";
    Shape of = shape();
    of.weighted = weighted;
    session_ = std::make_unique<Session<float>>(variant_, modules, of);
    session_->take_points(counted(kRows * kFeatures), 0,
                          weighted ? counted(kRows) : std::vector<float>());
  }
  void run() {
    Observer<float> nobody;
    session_->run({start_, {}}, nobody);
    std::vector<float> centroids(start_.size());
    session_->take({{}, centroids, {}, {}, 0});
    EXPECT_EQ(centroids, start_);
  }
  std::string refusal(const std::function<void()>& what) {
    try {
      what();
    } catch (const Refusal& refusal) {
      return refusal.what();
    }
    return "none";
  }

  RegisteredVariant variant_;
  std::unique_ptr<Session<float>> session_;
  std::vector<float> start_ = counted(kClusters * kFeatures, 100.0F);
};

TEST_F(Delegating, TheFirstThatTakesShapeAndPointsDoesTheWork) {
  choose({"kmeans_refuses_shape", "kmeans_refuses_points", "kmeans_takes_all", "not_there"});
  session_->prepare();
  EXPECT_EQ(session_->chosen_path(), "kmeans_takes_all: the only path");
  run();
  EXPECT_EQ(session_->iterations(), 1U);
  EXPECT_GE(session_->windows().prepare, 2 * kWork); // finding out is on the clock
}

TEST_F(Delegating, WhoTakesNoWeightsIsLeftOutWherePointsHaveSome) {
  choose({"kmeans_refuses_weights", "kmeans_takes_all"}, /*weighted=*/true);
  session_->prepare();
  EXPECT_EQ(session_->chosen_path(), "kmeans_takes_all: the only path");
  choose({"kmeans_refuses_weights", "kmeans_takes_all"});
  session_->prepare();
  EXPECT_EQ(session_->chosen_path(), "kmeans_refuses_weights: the only path");
  choose({"kmeans_refuses_weights"}, /*weighted=*/true);
  EXPECT_EQ(refusal([&] { session_->prepare(); }),
            "kmeans_refuses_weights: it takes no weights of points");
}

TEST_F(Delegating, WhoRefusesAStartIsReplacedWithinTheRun) {
  choose({"kmeans_refuses_start", "kmeans_takes_all"});
  session_->prepare();
  EXPECT_EQ(session_->chosen_path(), "kmeans_refuses_start: the only path");
  run();
  EXPECT_EQ(session_->chosen_path(), "kmeans_takes_all: the only path");
  EXPECT_GE(session_->windows().run, 2 * kWork); // the refused run, and preparing the next
  run();                                         // from now on it is the one
  EXPECT_EQ(session_->chosen_path(), "kmeans_takes_all: the only path");
  session_->prepare(); // and a fresh object chooses anew
  EXPECT_EQ(session_->chosen_path(), "kmeans_refuses_start: the only path");
}

TEST_F(Delegating, TheSameInAWholeAnswer) {
  choose({"kmeans_refuses_start", "kmeans_takes_all"});
  session_->run_whole({start_, {}});
  EXPECT_EQ(session_->chosen_path(), "kmeans_takes_all: the only path");
  EXPECT_GE(session_->windows().run, 2 * kWork);
  EXPECT_GE(session_->windows().whole, 3 * kWork);
}

TEST_F(Delegating, AllReasonsAreTold) {
  choose({"kmeans_refuses_shape", "kmeans_refuses_points"});
  EXPECT_EQ(refusal([&] { session_->prepare(); }),
            "kmeans_refuses_shape: not this shape; kmeans_refuses_points: not these points");
  choose({"kmeans_refuses_points", "kmeans_refuses_start"});
  session_->prepare();
  EXPECT_EQ(refusal([&] { run(); }),
            "kmeans_refuses_points: not these points; kmeans_refuses_start: not this start");
  EXPECT_EQ(refusal([&] { run(); }), "it is not prepared");
}

TEST_F(Delegating, ADelegateThatIsNotThereIsAnError) {
  choose({"not_there"});
  EXPECT_THROW(session_->prepare(), std::runtime_error);
  EXPECT_EQ(refusal([&] { // which is no refusal
              try {
                session_->prepare();
              } catch (const Refusal&) {
                throw;
              } catch (const std::runtime_error& error) {
                EXPECT_NE(std::string(error.what()).find("not_there.so"), std::string::npos);
              }
            }),
            "none");
}

} // namespace
} // namespace clusterbench
