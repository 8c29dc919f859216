// Wrong bounds planted into the variants that skip distances: each must change an answer, or the
// tests of these variants could not see a wrong bound.
//
// The variants are compiled once more, in a namespace of another name, with a Slack that can be
// told to be wrong; without a bug it is the real one.
#include "tests/unit/bounds_cases.hpp"

#define openmp openmp_planted // no type of the real variants may be meant here
#define Slack RightSlack
#include "impls/openmp/support/slack.hpp"
#undef Slack

namespace clusterbench::openmp {

enum class Bug { none, lower_too_high, upper_too_low, lower_stays, upper_stays, way_forgotten };
Bug planted = Bug::none;

template <typename T>
class Slack : public RightSlack<T> {
  using Right = RightSlack<T>;

public:
  using Right::Right;
  T upper(T squared) const {
    return Right::upper(squared) * (planted == Bug::upper_too_low ? T(0.9) : T{1});
  }
  T lower(T squared) const {
    return Right::lower(squared) * (planted == Bug::lower_too_high ? T(1.1) : T{1});
  }
  T plus(T upper, T moved) const {
    return planted == Bug::upper_stays ? upper : Right::plus(upper, moved);
  }
  T minus(T lower, T moved) const {
    return planted == Bug::lower_stays ? lower : Right::minus(lower, moved);
  }
  T since(T lower, T way) const {
    return planted == Bug::way_forgotten ? lower + 2 * way : Right::since(lower, way);
  }
};

} // namespace clusterbench::openmp

// Their own names for the same things, side by side in one file.
#define Nearest HamerlyNearest
#define nearest_of nearest_of_hamerly
#define registration hamerly_registration
#include "impls/openmp/kmeans_openmp_hamerly.cpp"
#undef Nearest
#undef nearest_of
#undef registration
#define Nearest ElkanNearest
#define registration elkan_registration
#include "impls/openmp/kmeans_openmp_elkan.cpp"
#undef Nearest
#undef registration
#define Nearest YinyangNearest
#define registration yinyang_registration
#include "impls/openmp/kmeans_openmp_yinyang.cpp"

namespace clusterbench {
namespace {

/// Cases in which the bug changes centroids or labels, of those in which distances are skipped.
template <template <typename> class Skipping>
std::size_t changed_answers(openmp::Bug bug) {
  std::size_t changed = 0;
  for (const Case<float>& test :
       {drawn<float>("heaps", 501, 9, 41, 9, 0.0, 1.0, 0.0),
        drawn<float>("no structure", 501, 2, 41, 0, 0.0, 1.0, 0.0),
        drawn<float>("many clusters", 2000, 20, 100, 40, 0.0, 1.0, 0.0)}) {
    Skipping<float> variant;
    openmp::planted = openmp::Bug::none;
    const OwnedAnswer<float> right =
        answer_of<float>(variant, test, test.centroids, passes(kPasses), 1);
    openmp::planted = bug;
    const OwnedAnswer<float> answer =
        answer_of<float>(variant, test, test.centroids, passes(kPasses), 1);
    changed += answer.labels != right.labels || answer.recorder.passes != right.recorder.passes;
  }
  return changed;
}

TEST(OpenmpPlantedBounds, HamerlysTestsSeeThem) {
  using enum openmp::Bug;
  EXPECT_EQ(changed_answers<KmeansOpenmpHamerly>(none), 0u);
  for (const openmp::Bug bug : {lower_too_high, upper_too_low, lower_stays, upper_stays}) {
    EXPECT_GT(changed_answers<KmeansOpenmpHamerly>(bug), 0u) << static_cast<int>(bug);
  }
}

TEST(OpenmpPlantedBounds, ElkansTestsSeeThem) {
  using enum openmp::Bug;
  EXPECT_EQ(changed_answers<KmeansOpenmpElkan>(none), 0u);
  for (const openmp::Bug bug : {lower_too_high, upper_too_low, way_forgotten, upper_stays}) {
    EXPECT_GT(changed_answers<KmeansOpenmpElkan>(bug), 0u) << static_cast<int>(bug);
  }
}

TEST(OpenmpPlantedBounds, YinyangsTestsSeeThem) {
  using enum openmp::Bug;
  EXPECT_EQ(changed_answers<KmeansOpenmpYinyang>(none), 0u);
  for (const openmp::Bug bug : {lower_too_high, upper_too_low, way_forgotten, upper_stays}) {
    EXPECT_GT(changed_answers<KmeansOpenmpYinyang>(bug), 0u) << static_cast<int>(bug);
  }
}

} // namespace
} // namespace clusterbench
