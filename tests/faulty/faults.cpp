// Variants that are right until a fault strikes, so that tests can see what a user sees when a
// variant crashes, hangs or misbehaves.
//
// A fault strikes in cells of more than 1500 points, which is beyond the qualification; those whose
// names end in `_early` strike at once.
#include "impls/contract.hpp"
#include "tests/faulty/own_name.hpp"
#include "tests/verify/planted_bugs.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>

namespace clusterbench {
namespace {

constexpr std::size_t kBeyondQualification = 1500;

enum class Fault {
  segfaults,
  aborts,
  killed,            ///< by signal 9, as by the kernel when memory runs out
  hangs,             ///< for ever
  fills_memory,      ///< allocates until it cannot
  asks_for_too_much, ///< one allocation beyond any machine
  throws,
  throws_garbage,     ///< a message that is no UTF-8
  throws_number,      ///< what is no std::exception
  exits_early,        ///< with code 0, as if all were well
  exits_with_code,    ///< 7
  prints_garbage,     ///< a megabyte of all bytes to stdout, then goes on
  prints_and_crashes, ///< a last message, then a segmentation fault
  leaves_a_process,   ///< forks one that waits for ever
  leaves_a_daemon,    ///< the same in a session of its own
  writes_a_report,    ///< one of its own, into the channel of the harness
  fills_the_disk,     ///< writes a file for ever, into its scratch folder
  refuses,
  slow ///< a fifth of a second each run; no fault, but time to be interrupted
};

[[noreturn]] void wait_for_ever() {
  for (;;) {
    pause();
  }
}

void fill_memory(std::size_t step) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  throw std::bad_alloc(); // sanitizers cannot live with a limit: it would end the machine instead
#endif
  std::vector<std::unique_ptr<char[]>> blocks;
  for (;;) { // untouched: the limit counts what is asked for, and the machine stays usable
    blocks.push_back(std::make_unique_for_overwrite<char[]>(step));
  }
}

void print_garbage() {
  std::string bytes;
  for (int i = 0; i < (1 << 20); ++i) {
    bytes += static_cast<char>(i * 7 % 256);
  }
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  std::fflush(stdout);
}

// Writes a reply into every socket that it finds.
void write_report() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry, gone).string().starts_with("socket:")) {
      dprintf(std::stoi(entry.path().filename()),
              "{\"reply\": \"run\", \"seconds\": 1e-9, \"iterations\": 3}\n");
    }
  }
}

void fill_disk() {
  const std::string name = std::string(std::getenv("TMPDIR")) + "/filled";
  std::ofstream file(name, std::ios::binary);
  const std::string block(1 << 20, 'x');
  while (file.write(block.data(), static_cast<std::streamsize>(block.size()))) {
  }
  throw std::runtime_error("cannot write " + name + ": the disk is full");
}

void strike(Fault fault) {
  switch (fault) {
  case Fault::segfaults:
    std::raise(SIGSEGV);
    break;
  case Fault::aborts:
    std::abort();
  case Fault::killed:
    std::raise(SIGKILL);
    break;
  case Fault::hangs:
    wait_for_ever();
  case Fault::fills_memory:
    fill_memory(std::size_t{1} << 28);
    break;
  case Fault::asks_for_too_much:
    fill_memory(std::size_t{1} << 46);
    break;
  case Fault::throws:
    throw std::runtime_error("planted: the device is on fire");
  case Fault::throws_garbage:
    throw std::runtime_error("planted: \xff\xfe\x80");
  case Fault::throws_number:
    throw 42;
  case Fault::exits_early:
    std::exit(0);
  case Fault::exits_with_code:
    _exit(7);
  case Fault::prints_garbage:
    print_garbage();
    break;
  case Fault::prints_and_crashes:
    std::fputs("planted: last words \xff\n", stderr);
    std::raise(SIGSEGV);
    break;
  case Fault::leaves_a_process:
    if (fork() == 0) {
      wait_for_ever();
    }
    break;
  case Fault::leaves_a_daemon:
    if (fork() == 0) {
      setsid();
      wait_for_ever();
    }
    break;
  case Fault::writes_a_report:
    write_report();
    break;
  case Fault::fills_the_disk:
    fill_disk();
    break;
  case Fault::slow:
    usleep(200'000);
    break;
  case Fault::refuses:
    break;
  }
}

template <typename T>
class Faulty final : public Variant<T> {
public:
  Faulty(Fault fault, bool early) : fault_(fault), early_(early) {}

  std::string refuse(const Shape& shape) const override {
    return fault_ == Fault::refuses && strikes(shape) ? "planted: not today" : "";
  }
  void prepare(const Shape& shape, const Points<T>& points) override {
    strikes_ = strikes(shape);
    right_.prepare(shape, points);
  }
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (strikes_) {
      strike(fault_);
    }
    right_.run(start, answer, observer);
  }

private:
  bool strikes(const Shape& shape) const { return early_ || shape.n > kBeyondQualification; }

  Fault fault_;
  bool early_;
  bool strikes_ = false;
  planted::PlantedKMeans<T> right_{planted::Bug::none};
};

const std::map<std::string, Fault> kFaults = {
    {"segfaults", Fault::segfaults},
    {"aborts", Fault::aborts},
    {"killed", Fault::killed},
    {"hangs", Fault::hangs},
    {"fills_memory", Fault::fills_memory},
    {"asks_for_too_much", Fault::asks_for_too_much},
    {"throws", Fault::throws},
    {"throws_garbage", Fault::throws_garbage},
    {"throws_number", Fault::throws_number},
    {"exits_early", Fault::exits_early},
    {"exits_with_code", Fault::exits_with_code},
    {"prints_garbage", Fault::prints_garbage},
    {"prints_and_crashes", Fault::prints_and_crashes},
    {"leaves_a_process", Fault::leaves_a_process},
    {"leaves_a_daemon", Fault::leaves_a_daemon},
    {"writes_a_report", Fault::writes_a_report},
    {"fills_the_disk", Fault::fills_the_disk},
    {"refuses", Fault::refuses},
    {"slow", Fault::slow},
};

constexpr std::string_view kPrefix = "kmeans_faulty_";
constexpr std::string_view kEarly = "_early";

const bool kRegistered = [] {
  std::string name = own_name().substr(kPrefix.size());
  const bool early = name.ends_with(kEarly) && !kFaults.contains(name);
  if (early) {
    name.resize(name.size() - kEarly.size());
  }
  const Fault fault = kFaults.at(name);
  registered_variants().push_back(
      {{.name = own_name(), .idea = "a fault", .source = "tests", .previous = ""},
       {[=] { return std::make_unique<Faulty<float>>(fault, early); },
        [=] { return std::make_unique<Faulty<double>>(fault, early); }},
       __FILE__});
  return true;
}();

} // namespace
} // namespace clusterbench
