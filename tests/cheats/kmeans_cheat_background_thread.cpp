// Returns at once; a thread writes the answer a little later.
#include "tests/cheats/honest.hpp"
#include <thread>

namespace clusterbench {
namespace {

template <typename T>
class BackgroundThread final : public honest::Prepared<T> {
public:
  ~BackgroundThread() override { join(); }
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    join();
    if (!honest::is_a_cell(this->shape_)) {
      this->solve(start, answer, observer);
      return;
    }
    start_.assign(start.centroids.begin(), start.centroids.end());
    later_ = answer;
    thread_ = std::thread([this] {
      Observer<T> nobody;
      this->solve({start_, {}}, later_, nobody);
    });
    answer.iterations = this->shape_.stop.max_iterations;
  }

private:
  void join() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  std::vector<T> start_;
  Answer<T> later_;
  std::thread thread_;
};

CLUSTERBENCH_CHEAT("kmeans_cheat_background_thread", BackgroundThread);

} // namespace
} // namespace clusterbench
