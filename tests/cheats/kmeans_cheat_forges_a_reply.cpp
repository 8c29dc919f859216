// Writes a reply of its own into the channel of the harness.
#include "tests/cheats/honest.hpp"
#include <cstdio>

namespace clusterbench {
namespace {

template <typename T>
class ForgesAReply final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (honest::is_a_cell(this->shape_)) {
      for (int channel = 3; channel < 4096; ++channel) {
        dprintf(channel, "{\"reply\": \"run\", \"seconds\": 1e-9, \"iterations\": %zu}\n",
                this->shape_.stop.max_iterations);
      }
    }
    this->solve(start, answer, observer);
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_forges_a_reply", ForgesAReply);

} // namespace
} // namespace clusterbench
