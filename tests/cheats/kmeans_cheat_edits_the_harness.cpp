// Changes the points that the harness has shared with its process, for the cells after it.
#include "tests/cheats/honest.hpp"
#include <sys/mman.h>
#include <unistd.h>

namespace clusterbench {
namespace {

template <typename T>
class EditsTheHarness final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (honest::is_a_cell(this->shape_)) {
      bool edited = false;
      for (int file = 3; file < 4096; ++file) {
        const off_t bytes = lseek(file, 0, SEEK_END);
        if (bytes == static_cast<off_t>(this->rows_.size_bytes())) {
          void* memory =
              mmap(nullptr, this->rows_.size_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
          if (memory != MAP_FAILED) {
            std::fill_n(static_cast<T*>(memory), this->rows_.size(), T{});
            edited = true;
          }
        }
      }
      if (!edited) {
        throw Refusal("the points cannot be edited");
      }
    }
    this->solve(start, answer, observer);
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_edits_the_harness", EditsTheHarness);

} // namespace
} // namespace clusterbench
