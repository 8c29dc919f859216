// What several subcommands ask of their options alike.
#pragma once

#include "harness/problem/problem_spec.hpp"
#include "harness/report/text_table.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

namespace clusterbench {

/// A whole number that is not negative and that 64 bits hold. (The library reads "-1" as the
/// largest one, and so whatever is too large.)
CLI::Validator whole_number();

/// Markdown if that is asked for; else for standard output's reader, in colours if it takes some.
TextStyle text_style(bool markdown);

/// Throws datasets::InputError for fewer than one thread, and for more than this machine has any
/// use for.
void check_threads(int threads);

/// The precisions that the words of --precision name, each once. Throws datasets::InputError.
std::vector<Precision> parse_precisions(const std::vector<std::string>& words);

/// Bytes that an option such as --memory names: a number and K, M or G. Throws
/// datasets::InputError, also for too few to run anything in.
std::size_t parse_memory(const std::string& option, const std::string& text);

/// An output that an option names.
struct OutputOption {
  const char* option;
  const char* what; ///< "file" or "folder"
};

/// Throws datasets::InputError for an output that is given an empty name, by a variable that is not
/// set say, instead of writing nowhere.
void check_output_names(const CLI::App& command, std::initializer_list<OutputOption> outputs);

/// The folder that --out names, or a new one in results/runs, called by the time.
std::filesystem::path run_folder(const std::string& out);

} // namespace clusterbench
