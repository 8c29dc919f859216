// What a ledger's lines say: the header of a campaign, and the row of one cell in one round.
#pragma once

#include "harness/ledger/cell_identity.hpp"
#include "harness/system/exit_codes.hpp"

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace clusterbench {

/// The header of one invocation.
struct Header {
  std::string environment_hash;             ///< of what must be equal for times to be comparable
  std::optional<std::uint64_t> starts_seed; ///< of the starts of all its rows
  nlohmann::json line;                      ///< all of it; has `provenance` and `limits`
  std::string ledger;                       ///< that holds it, as the user named it

  /// Throws json_text::Malformed where a field is missing or odd.
  Header(nlohmann::json line, std::string ledger);
  /// Whether the environment's hash is that of the provenance.
  bool intact() const { return intact_; }

private:
  bool intact_ = false;
};

/// The run from the problem's own start, that is, from the article's.
struct OwnStart {
  double ms = 0.0, iterations = 0.0;
};

/// One window from the caller's points to labels and centroids in host memory.
struct WholeAnswer {
  double ms = 0.0, run_ms = 0.0, iterations = 0.0;
  double cpu_ms = 0.0;   ///< processor time of the whole window, of all threads; 0: not known
  std::size_t start = 0; ///< its number
};

/// One cell in one round. What most readers need is here; the rest is read from its text when it is
/// asked for.
struct Row {
  std::string table, name; ///< name: table/problem/variant/precision
  std::string variant, precision, device, time, key;
  std::string status, message;
  int threads = 0, round = 0;
  int gpus = 0;  ///< that it computed on; 0: none, or of a ledger that does not say it
  int ranks = 0; ///< processes that computed together; 0: one that is no rank
  std::vector<double> samples_ms, warm_up_samples_ms;
  std::vector<std::size_t> sample_starts, sample_iterations; ///< of each of samples_ms
  /// Processor time of the request around each of samples_ms, of all threads; empty: not known.
  std::vector<double> cpu_ms;
  /// Around each of samples_ms; empty: not measured.
  std::vector<double> fixed_work_us, other_tasks;
  std::optional<double> gpus_used_by_others; ///< of 1, before the process began; empty: not known
  std::vector<WholeAnswer> whole;
  std::optional<OwnStart> own_start;
  bool unsandboxed = false;
  double approximate_within = 0.0; ///< > 0: the variant claims no exact labels

  std::size_t memory_limit = 0, device_memory_limit = 0; ///< bytes; 0: none, or not told
  ProblemIdentity identity;                              ///< of its problem

  std::shared_ptr<const Header> header; ///< that it follows
  std::string text;                     ///< all of the line, `chain` left out

  /// Reads a line. Throws json_text::Malformed naming the field that is missing or odd.
  Row(std::string text, std::shared_ptr<const Header> header);
  /// What a ledger holds of a cell that was measured: see text_of_cell().
  Row(const nlohmann::json& line, std::shared_ptr<const Header> header);

  bool ok() const { return status == "ok"; }
  /// The share of the samples that were dropped as warm-up.
  double warm_up_share() const;
  /// Any field of the line; null if it is not there.
  nlohmann::json field(std::string_view field_name) const;
  /// A field that is a number; empty for any other.
  std::optional<double> number(std::string_view field_name) const;
  nlohmann::json problem() const { return field("problem"); }
};

void to_json(nlohmann::json& json, const Row& row);

/// The line of a cell for a ledger. If readers would refuse it, for a figure that is not finite
/// say, it is the cell's row with the status `error` and their words, without any figures. Throws
/// json_text::Malformed where they would refuse that, too.
std::string text_of_cell(const nlohmann::json& line);

/// What a cell's status means for the program's exit code.
ExitCode exit_code_of(std::string_view status);

} // namespace clusterbench
