// Which rows are of one problem: what was asked for, and what only running it tells.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace clusterbench {

struct ProblemIdentity {
  std::string definition; ///< JSON of what to_json(ProblemSpec) writes; empty: not told
  std::string hash;       ///< problem_hash(); empty: its data were not built
  /// Of memory, in words; empty: not told.
  std::optional<std::string> limits;

  auto operator<=>(const ProblemIdentity&) const = default;

  /// Whether both were asked for the same.
  bool same_definition(const ProblemIdentity& other) const;
  /// Whether both did the same: by the hash, which also knows the data; by the definition, where
  /// one has no hash.
  bool same_work(const ProblemIdentity& other) const;
  /// Whether they did so within the same limits, as far as both tell them.
  bool may_be(const ProblemIdentity& other) const;
  /// Takes over what it does not tell itself.
  void learn(const ProblemIdentity& other);
};

/// The definition in the text of a row's `problem`. Throws json_text::Malformed where a field is
/// odd.
std::string definition_of(std::string_view problem);

/// The name of a cell with its numbers of GPUs and ranks, where there are several.
std::string name_with_devices(const std::string& name, int gpus, int ranks);

/// In what `one` differs from some of `all`, such as "k 4, stop labels"; empty: in nothing.
std::string difference(const ProblemIdentity& one, const std::vector<ProblemIdentity>& all);

} // namespace clusterbench
