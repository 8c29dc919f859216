// Knows a start again whose rows were permuted, and gives its answer permuted likewise.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class ReplayPermuted final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (known_.empty() || !honest::is_a_cell(this->shape_)) {
      known_.assign(start.centroids.begin(), start.centroids.end());
      this->solve(start, answer, observer);
      kept_.keep(answer);
      return;
    }
    // Every row of the new start is taken for the nearest row of the known one.
    const std::size_t d = this->shape_.d, k = this->shape_.k;
    kept_.give(answer);
    std::vector<std::int32_t> place(k);
    for (std::size_t j = 0; j < k; ++j) {
      const auto known = static_cast<std::size_t>(
          honest::nearest<T>(&start.centroids[j * d], std::span<const T>(known_), d));
      place[known] = static_cast<std::int32_t>(j);
      std::copy_n(&kept_.centroids[known * d], d, &answer.centroids[j * d]);
      std::copy_n(&kept_.entering[known * d], d, &answer.entering[j * d]);
    }
    for (std::int32_t& label : answer.labels) {
      label = place[static_cast<std::size_t>(label)];
    }
  }

private:
  std::vector<T> known_;
  honest::Kept<T> kept_;
};

CLUSTERBENCH_CHEAT("kmeans_cheat_replay_permuted", ReplayPermuted);

} // namespace
} // namespace clusterbench
