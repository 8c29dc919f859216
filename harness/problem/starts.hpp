// Where the samples of a process start: each from another place, so that no answer is of use twice.
#pragma once

#include "harness/problem/problem.hpp"
#include "harness/problem/problem_spec.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {

/// Starts come in cycles of so many, each with the same mixture of kinds.
constexpr std::size_t kStartCycle = 9;

/// The largest coordinate whose squared distances T can hold.
template <typename T>
T largest_coordinate(std::size_t d) {
  return std::sqrt(std::numeric_limits<T>::max() / static_cast<T>(4 * d));
}

/// The starts of one process, in order; the same for all variants of a problem. All differ from
/// each other and from the problem's own start in more than the order of clusters. (Only the
/// memberships of a single cluster are 1 whatever happens.)
///
/// Where the own start is rows of the points (`first`, `rows`, `random`), six of nine are other
/// distinct rows, and three are rows of which each coordinate moved by 2 to 10 % of the feature's
/// standard deviation. Where few points differ, and for `kmeans++` and `file`, all are the own
/// start, moved in that way and with its clusters in another order. Memberships are mixed with
/// random ones and scaled to sum 1.
///
/// A start costs k d operations, or n k of several threads for memberships; making the sequence
/// costs a look at 65536 points at most.
template <typename T>
class StartSequence {
public:
  /// kind: how the own start was made. problem: with its own start; its arrays must stay. hash: of
  /// the problem. secret: of the campaign. round: which process of the cell this is. samples: the
  /// smallest number that the process makes.
  StartSequence(InitSpec::Kind kind, const Problem<T>& problem, std::string hash,
                std::uint64_t secret, std::size_t round, std::size_t samples = kStartCycle);

  /// [k, d] centroids or [n, k] memberships of sample i: the own start at its position, which is in
  /// the first cycle, and elsewhere another one. Any number of threads at once.
  std::vector<T> at(std::size_t i) const;

  /// The problem's own start.
  std::span<const T> own() const { return own_; }
  /// A secret position below kStartCycle, or below `samples` where that is smaller.
  std::size_t own_position() const { return own_position_; }

  /// Start i of the drawn ones; what at(i) gives but at the own start's position.
  std::vector<T> drawn(std::size_t i) const;

private:
  bool moves_in_cycle(std::size_t i) const;
  std::vector<T> drawn_rows(std::size_t i) const;
  std::vector<T> moved(std::vector<T> centroids, std::size_t i) const;
  std::vector<T> mixed_memberships(std::size_t i) const;
  std::string purpose(const char* what, std::size_t i) const;

  Problem<T> problem_;
  std::string hash_;
  std::uint64_t secret_;
  std::size_t round_;
  std::span<const T> own_;
  std::size_t own_position_;
  std::vector<double> deviation_; ///< [d] of each feature; 0 where it is not to be moved
  bool draws_rows_ = false;
};

/// Two secret positions of samples whose answers are judged in full, ascending; the same for all
/// variants of a problem and all rounds. samples: the smallest number that a process makes; all
/// positions if there are no more than two.
std::vector<std::size_t> judged_positions(std::uint64_t secret, const std::string& hash,
                                          std::size_t samples);

/// A secret number of sample i. Nobody knows beforehand how many samples a process makes, so which
/// of the later ones are judged in full is settled in the end: those with the lowest numbers.
std::uint64_t judging_number(std::uint64_t secret, const std::string& hash, std::size_t i);

} // namespace clusterbench
