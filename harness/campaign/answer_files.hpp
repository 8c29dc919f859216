// Where `--save` puts answers, and how: a name for each, as short as what a campaign saves allows.
#pragma once

#include "harness/campaign/cell_memory.hpp"
#include "harness/problem/table.hpp"

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace clusterbench {

class AnswerFiles {
public:
  /// folder: of all answers; empty if none is saved. cells, rounds: what the campaign runs.
  AnswerFiles(std::filesystem::path folder, const std::vector<CellSpec>& cells, int rounds);

  bool wanted() const { return !folder_.empty(); }
  const std::filesystem::path& folder() const { return folder_; }

  /// The path of an answer's files but for their suffixes, `.labels.npy` and so on: the variant,
  /// and in front of it TABLE/PROBLEM/ where the campaign has several problems, behind it
  /// .PRECISION where it has several of those, and .roundN where it has several rounds.
  std::filesystem::path stem(const CellSpec& cell, int round) const;

  /// Throws datasets::InputError where a file of an answer would replace one that a cell reads: its
  /// points, weights or initial state. To be called before anything is written.
  void spare_inputs(const std::vector<CellSpec>& cells) const;

  /// Writes an answer of d features: its arrays, last .trace.json, which names the ledger's row by
  /// its key. row: of the ledger. Throws datasets::OutputError.
  template <typename T>
  static void write(const std::filesystem::path& stem, const std::string& key, std::size_t d,
                    const TakenAnswer<T>& answer, const nlohmann::json& row);

  /// The sizes of an answer's arrays, by suffix, such as {"labels.npy": 8128}: a trace says them.
  static nlohmann::json sizes(const std::filesystem::path& stem);

  /// Whether the files there are the answer of the ledger's row with that key, and as long as they
  /// were when its trace was written.
  static bool holds(const std::filesystem::path& stem, std::string_view key);

private:
  std::filesystem::path folder_;
  bool several_problems_ = false;
  bool several_precisions_ = false;
  int rounds_;
};

} // namespace clusterbench
