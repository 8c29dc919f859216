#include "harness/cli/problem_options.hpp"

#include "datasets/errors.hpp"
#include "harness/cli/options.hpp"

#include <fmt/format.h>

namespace clusterbench {

using datasets::InputError;

namespace {

StopRule stop_rule(const ProblemOptions& options) {
  constexpr std::size_t kDefaultMaxIterations = 300;
  if (options.stop.empty()) {
    const std::size_t iterations =
        options.iterations != 0 ? options.iterations : options.max_iterations;
    return parse_stop("iterations", iterations != 0 ? iterations : kDefaultMaxIterations);
  }
  return parse_stop(options.stop,
                    options.max_iterations != 0 ? options.max_iterations : kDefaultMaxIterations);
}

} // namespace

void add_problem_options(CLI::App& command, ProblemOptions& options) {
  command.add_option("--data", options.data,
                     "Dataset name or file (.npy .csv .fvecs .bvecs .fbin .u8bin .i8bin .hdf5 .h5 "
                     ".parquet .arrow .feather)");
  command.add_option("--k", options.k, "Number of clusters")->check(whole_number());
  command.add_option("--take", options.take, "Use only the first rows of the data; 0: all")
      ->check(whole_number());
  command.add_flag("--last-column-is-label", options.last_column_is_label,
                   "The last column of a csv file is no feature");
  command.add_option(
      "--weights", options.weights,
      "File of the points' weights, one number each (k-means): any form that --data reads");
  command
      .add_option("--init", options.init,
                  "rows:1,3,6,8 | first | random:SEED | kmeans++:SEED | memberships:SEED | "
                  "file:FILE.npy")
      ->capture_default_str();
  command.add_option("--iterations", options.iterations, "Run so many iterations")
      ->check(whole_number());
  command.add_option("--stop", options.stop, "loss:EPS | labels | shift:TOL");
  command
      .add_option("--max-iterations", options.max_iterations,
                  "Bound of a --stop rule (default 300)")
      ->check(whole_number());
  command.add_option("--family", options.family, "kmeans | fcm")->capture_default_str();
  command.add_option("--fuzzifier", options.fuzzifier, "m of fuzzy c-means, greater than 1")
      ->capture_default_str();
}

void check_problem_options(const CLI::App& command, const ProblemOptions& options, bool adhoc) {
  const auto given = [&](const char* option) { return command.count(option) > 0; };
  for (const char* option :
       {"--k", "--take", "--last-column-is-label", "--weights", "--init", "--iterations", "--stop",
        "--max-iterations", "--family", "--fuzzifier"}) {
    if (!adhoc && given(option)) {
      throw InputError(
          fmt::format("{} describes an ad-hoc problem; a table states its own", option));
    }
  }
  if (given("--iterations") && (given("--stop") || given("--max-iterations"))) {
    throw InputError("--iterations excludes --stop and --max-iterations; bound a --stop rule with "
                     "--max-iterations");
  }
  if (given("--weights") && options.weights.empty()) {
    throw InputError("--weights: the name of a file is missing");
  }
  for (const char* option : {"--iterations", "--max-iterations"}) {
    if (given(option) && command.get_option(option)->as<std::size_t>() == 0) {
      throw InputError(fmt::format("{}: at least 1 is needed", option));
    }
  }
  if (given("--fuzzifier") && parse_family(options.family) == Family::kmeans) {
    throw InputError("--fuzzifier belongs to --family fcm");
  }
}

ProblemSpec adhoc_problem(const ProblemOptions& options) {
  ProblemSpec spec;
  spec.family = parse_family(options.family);
  spec.data = options.data;
  check_printable(spec.data, "--data");
  spec.take = options.take;
  spec.last_column_is_label = options.last_column_is_label;
  spec.weights = options.weights;
  check_printable(spec.weights, "--weights");
  spec.k = options.k;
  spec.init = parse_init(options.init);
  spec.stop = stop_rule(options);
  spec.fuzzifier = options.fuzzifier;
  return spec;
}

} // namespace clusterbench
