#include "harness/gate/instructions.hpp"

#include "datasets/errors.hpp"
#include "harness/gate/suspicion.hpp"
#include "harness/system/find_program.hpp"

#include <fmt/format.h>

namespace clusterbench {
namespace {

using datasets::InputError;

// valgrind is some fifty times slower than the processor.
constexpr std::chrono::seconds kTimeout{600};

// The line "==123== Collected : 456" at the end of callgrind's words.
double collected(const std::string& words) {
  constexpr std::string_view kLabel = "Collected : ";
  const std::size_t at = words.rfind(kLabel);
  if (at == std::string::npos) {
    throw WorkerFailure("error", "valgrind gave no count: " + words);
  }
  return std::stod(words.substr(at + kLabel.size()));
}

std::string explained(const std::string& failure) {
  if (failure.find("signal 4 ") == std::string::npos) {
    return failure;
  }
  return failure.substr(0, failure.find("; it said: ")) + // a backtrace of valgrind's
         ": valgrind before 3.22 does not know AVX-512; build both with "
         "-DCLUSTERBENCH_MARCH=x86-64-v3";
}

template <typename T>
double count(const std::filesystem::path& valgrind, const std::filesystem::path& build,
             const CellTask<T>& cell, std::size_t runs) {
  TurnProcess<T> process(build, cell, 0,
                         {valgrind.string(), "--tool=callgrind", "--callgrind-out-file=/dev/null",
                          "--trace-children=yes"});
  process.run(runs, {}); // in one turn: what a turn itself costs is then equal
  return collected(process.finish());
}

template <typename T>
void count_typed(const std::filesystem::path& valgrind,
                 const std::array<std::filesystem::path, 2>& builds, const Workload& work,
                 const KnownVariant& variant, CountedCell& counted) {
  WorkerOptions options; // one thread
  options.timeout = kTimeout;
  options.sandboxed = false; // valgrind opens files of its own
  const CellTask<T> cell = make_cell_task<T>(variant, work, /*seed=*/1, 2, options);
  for (const Side side : kSides) {
    try {
      const double once = count(valgrind, builds[index(side)], cell, 1);
      const double twice = count(valgrind, builds[index(side)], cell, 2);
      counted.instructions[index(side)] = twice - once;
    } catch (const WorkerFailure& failure) {
      throw SideFailure(side, failure);
    }
  }
}

} // namespace

std::filesystem::path find_valgrind() {
  const std::filesystem::path valgrind = find_program("valgrind");
  if (valgrind.empty()) {
    throw InputError("--instructions: valgrind is not installed (Debian's package valgrind)");
  }
  return valgrind;
}

CountedCell count_instructions(const std::filesystem::path& valgrind,
                               const std::array<std::filesystem::path, 2>& builds,
                               const CellSpec& cell, WorkloadBuilder& builder, double min_effect) {
  CountedCell counted;
  counted.name = cell_name(cell);
  const KnownVariant* variant = find_variant(cell.variant);
  if (variant == nullptr) {
    throw InputError(fmt::format("{}: unknown variant", counted.name));
  }
  const Workload work = builder.build(cell.problem, cell.precision);
  try {
    if (cell.precision == Precision::f32) {
      count_typed<float>(valgrind, builds, work, *variant, counted);
    } else {
      count_typed<double>(valgrind, builds, work, *variant, counted);
    }
  } catch (const SideFailure& failure) {
    const bool base_lacks_it = failure.side() == Side::base && lacks_the_cell(failure);
    counted.verdict = failure.status() == "interrupted" ? "interrupted"
                      : base_lacks_it                   ? "not_compared"
                                                        : "failed";
    counted.message = explained(failure.what());
    return counted;
  }
  const double ratio = counted.instructions[1] / counted.instructions[0];
  counted.verdict = ratio < 1.0 + min_effect ? "same" : "slower";
  if (const std::string why =
          unbelievable_ratio(counted.instructions[0], counted.instructions[1], "instructions");
      !why.empty()) {
    counted.verdict = "suspicious";
    counted.message = why;
  }
  return counted;
}

} // namespace clusterbench
