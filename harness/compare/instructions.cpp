#include "harness/compare/instructions.hpp"

#include "datasets/errors.hpp"
#include "harness/problem/cell_choice.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <sstream>
#include <unistd.h>

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
    throw PaceFailure("error", "valgrind gave no count: " + words);
  }
  return std::stod(words.substr(at + kLabel.size()));
}

std::string explained(const std::string& failure) {
  const bool unknown_instruction = failure.find("signal 4 ") != std::string::npos;
  return unknown_instruction ? failure + ": valgrind before 3.22 does not know AVX-512; build both "
                                         "with -DCLUSTERBENCH_MARCH=x86-64-v3"
                             : failure;
}

double count(const std::filesystem::path& valgrind, const std::filesystem::path& executable,
             const PaceJob& job, std::size_t runs) {
  PacedProcess process(executable, {job}, kTimeout, 0,
                       {valgrind.string(), "--tool=callgrind", "--callgrind-out-file=/dev/null",
                        "--trace-children=yes"});
  process.wait_until_ready();
  process.run(runs, {}); // in one turn: what a turn itself costs is then equal
  return collected(process.finish());
}

} // namespace

std::filesystem::path find_valgrind() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path candidate = std::filesystem::path(folder) / "valgrind";
    if (access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  throw InputError("--instructions: valgrind is not installed (Debian's package valgrind)");
}

CountedCell count_instructions(const std::filesystem::path& valgrind,
                               const std::array<std::filesystem::path, 2>& executables,
                               const CellSpec& cell, WorkloadBuilder& builder, double min_effect) {
  CountedCell counted;
  counted.name = cell_name(cell);
  const Workload work = builder.build(cell.problem, cell.precision);
  PairOfBuilds builds(executables, cell.variant, cell.problem.family, work, /*threads=*/1, {});
  for (const Side side : kSides) {
    try {
      const PaceJob job = builds.job(side);
      const double once = count(valgrind, executables[index(side)], job, 1);
      const double twice = count(valgrind, executables[index(side)], job, 2);
      counted.instructions[index(side)] = twice - once;
    } catch (const PaceFailure& failure) {
      const bool base_lacks_it = side == Side::base && lacks_the_cell(failure);
      counted.verdict = failure.status() == "interrupted" ? "interrupted"
                        : base_lacks_it                   ? "not_compared"
                                                          : "failed";
      counted.message = explained(SideFailure(side, failure).what());
      return counted;
    }
  }
  const double ratio = counted.instructions[1] / counted.instructions[0];
  counted.verdict = ratio < 1.0 + min_effect ? "same" : "slower";
  return counted;
}

} // namespace clusterbench
