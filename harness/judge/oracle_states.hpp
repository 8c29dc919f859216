// The states of an oracle's run that are kept.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace clusterbench {

/// The centroids after a number of passes.
struct OracleState {
  std::size_t pass = 0;          ///< 0: the initial state
  std::vector<double> centroids; ///< [k, d]
};

/// Keeps the initial state, the last two, and every so many-th between: ever fewer of those, so
/// that all together stay within a bound.
class StateKeeper {
public:
  static constexpr std::size_t kMostValues = std::size_t{1} << 23; ///< 64 MiB

  explicit StateKeeper(std::vector<OracleState>& states, std::size_t most_values = kMostValues)
      : states_(states), most_values_(most_values) {}

  void add(std::size_t pass, const std::vector<double>& centroids) {
    if (states_.size() >= 2 && states_[states_.size() - 2].pass % stride_ != 0) {
      states_.erase(states_.end() - 2);
    }
    states_.push_back({pass, centroids});
    const std::size_t each = centroids.size() + kOverhead;
    while (states_.size() > kAlways && states_.size() * each > most_values_) {
      stride_ *= 2;
      std::erase_if(states_, [&](const OracleState& state) {
        return state.pass % stride_ != 0 && state.pass + 1 < pass;
      });
    }
  }

private:
  static constexpr std::size_t kOverhead = 8; ///< of an OracleState, in values
  static constexpr std::size_t kAlways = 3;
  std::vector<OracleState>& states_;
  std::size_t most_values_;
  std::size_t stride_ = 1;
};

} // namespace clusterbench
