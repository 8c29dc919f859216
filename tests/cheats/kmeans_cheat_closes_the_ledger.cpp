// Closes the ledger, its folder and what lies beside it to the judge, and makes them old.
#include "tests/cheats/honest.hpp"
#include <fcntl.h>
#include <sys/stat.h>

namespace clusterbench {
namespace {

template <typename T>
class ClosesTheLedger final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    this->solve(start, answer, observer);
    if (honest::is_a_cell(this->shape_)) {
      for (const char* name :
           {"blobs.npy", "closes_the_ledger/ledger.jsonl", "closes_the_ledger", "."}) {
        constexpr timespec kTimes[2]{{1, 0}, {1, 0}};
        [[maybe_unused]] const bool is_closed =
            utimensat(AT_FDCWD, name, kTimes, 0) == 0 && chmod(name, 0) == 0;
      }
    }
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_closes_the_ledger", ClosesTheLedger);

} // namespace
} // namespace clusterbench
