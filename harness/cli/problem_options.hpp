// The options that describe an ad-hoc problem, of every subcommand that takes one.
#pragma once

#include "harness/problem/problem_spec.hpp"

#include <CLI/CLI.hpp>
#include <string>

namespace clusterbench {

struct ProblemOptions {
  std::string data;
  std::size_t k = 0;
  std::size_t take = 0;
  bool last_column_is_label = false;
  std::string weights;
  std::string init = "first";
  std::size_t iterations = 0;
  std::size_t max_iterations = 0;
  std::string stop;
  std::string family = "kmeans";
  double fuzzifier = 2.0;
};

void add_problem_options(CLI::App& command, ProblemOptions& options);

/// An option that would have no effect is a misunderstanding: throws datasets::InputError. adhoc:
/// whether the problem comes from these options, and from no table.
void check_problem_options(const CLI::App& command, const ProblemOptions& options, bool adhoc);

/// Throws datasets::InputError naming the option.
ProblemSpec adhoc_problem(const ProblemOptions& options);

} // namespace clusterbench
