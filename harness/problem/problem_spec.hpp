// A problem in words: what a table or a command line asks for, before any data are loaded.
#pragma once

#include "harness/problem/registry.hpp"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace clusterbench {

/// Where a run starts. Text form: `first`, `rows:1,3,6,8`, `random:SEED`, `kmeans++:SEED`,
/// `memberships:SEED` (FCM), `file:FILE.npy`.
struct InitSpec {
  enum class Kind { first, rows, random, kmeans_plus_plus, memberships, file };
  Kind kind = Kind::first;
  std::vector<std::size_t> rows;
  std::uint64_t seed = 0;
  std::string file;
};

/// Throws datasets::InputError naming the option for anything else than the forms above.
InitSpec parse_init(std::string_view text);
std::string to_string(const InitSpec& init);

/// `iterations`, `loss:EPS`, `labels` or `shift:TOL` with a bound on the number of passes.
/// Throws datasets::InputError.
StopRule parse_stop(std::string_view text, std::size_t max_iterations);
std::string to_string(const StopRule& stop);

/// Throws datasets::InputError.
Precision parse_precision(std::string_view text);

/// Throws datasets::InputError for a name, or another text of one line, with characters that a
/// terminal would obey (harmless.hpp). `what` is what it belongs to.
void check_printable(std::string_view text, std::string_view what);
Family parse_family(std::string_view text);

struct ProblemSpec {
  Family family = Family::kmeans;
  std::string data;     ///< name of a dataset or path of a file
  std::size_t take = 0; ///< only the first rows; 0: all
  bool last_column_is_label = false;
  std::string weights; ///< path of the file of the points' weights (k-means); empty: all are 1
  std::size_t k = 0;
  InitSpec init;
  StopRule stop; ///< for Kind::shift the threshold is the tolerance, not yet scaled by the variance
  double fuzzifier = 2.0;
};

nlohmann::json to_json(const ProblemSpec& spec);

/// What an ad-hoc problem is called in a table and a ledger: its data and its weights.
std::string adhoc_name(const ProblemSpec& spec);

/// Hash of the spec, the identity of its data (content, type and shape, of the weights too), the
/// content of an initial-state file, and the precision: problems with equal hashes are the same
/// work.
std::string problem_hash(const ProblemSpec& spec, std::string_view data_identity,
                         std::string_view init_sha256, Precision precision);

} // namespace clusterbench
