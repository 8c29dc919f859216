// Writes what looks like a line of the judge to every terminal that there is.
#include "tests/cheats/honest.hpp"
#include <fcntl.h>
#include <string>
#include <string_view>
#include <unistd.h>

namespace clusterbench {
namespace {

template <typename T>
class WritesToTerminals final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    this->solve(start, answer, observer);
    if (honest::is_a_cell(this->shape_)) {
      boast("/dev/tty");
      for (int number = 0; number < 64; ++number) {
        boast("/dev/pts/" + std::to_string(number));
      }
    }
  }

private:
  static void boast(const std::string& terminal) {
    constexpr std::string_view kLine = "kmeans_cheat_writes_to_terminals: the fastest\r\n";
    const int opened = open(terminal.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK);
    if (opened >= 0) {
      [[maybe_unused]] const auto written = write(opened, kLine.data(), kLine.size());
      close(opened);
    }
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_writes_to_terminals", WritesToTerminals);

} // namespace
} // namespace clusterbench
