#include "harness/cli/cli.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/machine/build_info.hpp"
#include "harness/system/messages.hpp"
#include "harness/system/process.hpp"
#include "harness/system/process_limits.hpp"
#include "harness/system/program_folder.hpp"
#include "harness/system/shared_memory.hpp"
#include "harness/system/utf8.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <sstream>
#include <string_view>
#include <system_error>

namespace clusterbench {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 all right; 1 regression; 2 a wrong result; 3 inconclusive; 4 environments do\n"
    "not match, or a ledger was edited; 5 cells missing, crashed or timed out; 6 nothing was\n"
    "measured; 64 usage or bad input; 74 output cannot be written; 130 interrupted.";

struct Examples {
  const char *command, *first, *second;
};
constexpr Examples kExamples[] = {
    {"list", "clusterbench list", "clusterbench list --json"},
    {"data", "clusterbench data --list", "clusterbench data article004-100k --out points.npy"},
    {"run", "clusterbench run article004 --quick --variant 'kmeans_*'",
     "clusterbench run --data my.csv --k 8 --init kmeans++:1 --stop labels --save out"},
    {"judge", "clusterbench judge kmeans_mine.cpp",
     "clusterbench judge kmeans_mine.py --data my.npy --k 8 --json"},
    {"table", "clusterbench table article004 --from results/runs/full",
     "clusterbench table article004 --from results/runs/full --json"},
    {"ledger", "clusterbench ledger results/runs/full",
     "clusterbench ledger results/runs/full --json"},
    {"compare", "clusterbench compare before after",
     "clusterbench compare before after --cells '*/kmeans_simd/*'"},
    {"history", "clusterbench history monday tuesday wednesday",
     "clusterbench history results/runs/2026* --json"},
    {"report", "clusterbench report results/runs/full --out report.html",
     "clusterbench report results/reference --out report.html"},
    {"explain", "clusterbench explain kmeans_openmp",
     "clusterbench explain kmeans_serial kmeans_simd --from out"},
    {"gate", "clusterbench gate --base ../before/build/release --new build/release",
     "clusterbench gate --base ../before/build/release --new build/release "
     "article004/n=100k/kmeans_simd/f32"},
    {"quality", "clusterbench quality --data article002 --k 8 --out q",
     "clusterbench quality --data my.npy --k 100 --out q --json q.json"},
    {"probe", "clusterbench probe", "clusterbench probe --json"},
    {"completion",
     "clusterbench completion bash > ~/.local/share/bash-completion/completions/clusterbench",
     "clusterbench completion zsh > ~/.zsh/_clusterbench"},
};

void add_examples(CLI::App& app) {
  for (const Examples& each : kExamples) {
    app.get_subcommand(each.command)
        ->footer(fmt::format("Examples:\n  {}\n  {}\n\n{}", each.first, each.second, kExitCodes));
  }
}

// Of what failed because of an interrupt the interrupt is the reason.
int report(const char* message, ExitCode code) {
  say("clusterbench: {}\n", message);
  return static_cast<int>(interrupt_signal() != 0 ? ExitCode::interrupted : code);
}

// The library would only say that a command is missing.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    return {};
  }
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) {
    known.push_back(command->get_name());
  }
  if (std::ranges::find(known, argv[1]) != known.end()) {
    return {};
  }
  return fmt::format("unknown command \"{}\"; did you mean {}?", argv[1],
                     datasets::nearest(argv[1], known));
}

// "Could not convert: --gpus = 99999999999" is said of numbers, also of those that are too large.
std::string in_our_words(std::string why) {
  constexpr std::string_view kLibrarys = "Could not convert: ";
  const std::size_t end = why.find('\n');
  if (why.starts_with(kLibrarys) && end != std::string::npos) {
    why.insert(end, ": no number, or one that is too large");
    why.erase(0, kLibrarys.size());
  }
  return why;
}

// Ledgers and the protocol of the runner are JSON, which is UTF-8: a name of other bytes could not
// be told there as it is.
std::string not_utf8(const std::string& what, const std::string& value) {
  return fmt::format("{} is not UTF-8: \"{}\"; names of other bytes are not supported", what,
                     as_utf8(value));
}

// Said before anything is parsed; empty if all is well.
std::string word_that_is_not_utf8(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], before = argv[i - 1];
    if (is_utf8(word)) {
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string option = !word.starts_with("--") ? before
                               : equals != word.npos   ? word.substr(0, equals)
                                                       : "";
    const bool is_named = option.starts_with("--") && is_utf8(option);
    return not_utf8(is_named ? option + ": what it is given" : fmt::format("argument {}", i), word);
  }
  return {};
}

// Folders where files are made and looked for. The current one only counts where a process is told
// of it.
std::string folder_that_is_not_utf8(int argc, char** argv) {
  for (const char* name :
       {"TMPDIR", "XDG_CACHE_HOME", "HOME", "CLUSTERBENCH_CACHE", "CLUSTERBENCH_TABLES",
        "CLUSTERBENCH_FOLDER", "CLUSTERBENCH_PEERS", "CLUSTERBENCH_PYTHON"}) {
    if (const char* value = std::getenv(name); value != nullptr && !is_utf8(value)) {
      return not_utf8(name, value);
    }
  }
  constexpr std::array<std::string_view, 5> kStartVariants = {"run", "judge", "gate", "quality",
                                                              "probe"};
  if (argc < 2 || std::ranges::find(kStartVariants, argv[1]) == kStartVariants.end()) {
    return {};
  }
  std::error_code none; // what has gone is told by whoever needs it
  if (const std::string here = std::filesystem::current_path(none).string(); !is_utf8(here)) {
    return not_utf8("the current folder", here);
  }
  const std::string own = program_folder().string();
  return is_utf8(own) ? "" : not_utf8("the folder of this program", own);
}

// Before the parser, which knows of neither.
std::string bad_words(const CLI::App& app, int argc, char** argv) {
  for (const std::string& problem :
       {word_that_is_not_utf8(argc, argv), folder_that_is_not_utf8(argc, argv)}) {
    if (!problem.empty()) {
      return problem;
    }
  }
  return unknown_command(app, argc, argv);
}

// Why a write to standard output failed before the end: the stream itself remembers no reason.
int g_write_error = 0;

// The parser's own answers, --help and --version, go the same way as the commands': what nobody
// could read is no success. Its stream would keep for itself why a write failed.
int answer_of_parser(const CLI::App& app, const CLI::Success& success) {
  std::ostringstream answer;
  const int code = app.exit(success, answer, answer);
  if (std::fputs(answer.str().c_str(), stdout) < 0) {
    g_write_error = errno;
  }
  return code;
}

// What a command threw that has no type of its own.
int report_other(const std::exception& error) {
  if (std::ferror(stdout) != 0) { // it was printing
    const auto* const system = dynamic_cast<const std::system_error*>(&error);
    g_write_error = system != nullptr ? system->code().value() : 0;
    return static_cast<int>(ExitCode::cannot_write);
  }
  const std::string words = words_of(error);
  if (words != error.what() || !is_out_of_memory(error)) { // no room for another thread, or no lack
    return report(words.c_str(), ExitCode::cells_missing);
  }
  const bool nameless = words == "std::bad_alloc";
  return report(("there is not enough memory" + (nameless ? std::string() : ": " + words)).c_str(),
                ExitCode::cells_missing);
}

int run_parsed(CLI::App& app, const Action& action, int argc, char** argv) {
  if (const std::string problem = bad_words(app, argc, argv); !problem.empty()) {
    return report(problem.c_str(), ExitCode::usage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return answer_of_parser(app, success);
  } catch (const CLI::ParseError& error) {
    std::ostringstream nothing, why;
    app.exit(error, nothing, why);
    say("{}", in_our_words(why.str()));
    return static_cast<int>(ExitCode::usage);
  }
  try {
    return static_cast<int>(action());
  } catch (const datasets::InputError& error) {
    return report(error.what(), ExitCode::usage);
  } catch (const datasets::OutputError& error) {
    return report(error.what(), ExitCode::cannot_write);
  } catch (const std::filesystem::filesystem_error& error) { // a loop of links, say
    return report(fmt::format("{}: {}", error.path1().string(), error.code().message()).c_str(),
                  ExitCode::usage);
  } catch (const std::exception& error) {
    return report_other(error);
  }
}

// A library that gives up ends the program with a code that means something else: OpenMP with 1.
bool g_returned = false;

void end_of_a_library() {
  if (!g_returned) {
    say("clusterbench: a library has ended the program\n");
    std::_Exit(static_cast<int>(ExitCode::cells_missing));
  }
}

// A descriptor 0, 1 or 2 that the caller has closed would be given to the next file that is opened,
// a ledger say, and messages would go into it.
void open_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (fcntl(stream, F_GETFD) < 0) {
      static_cast<void>(open("/dev/null", O_RDWR)); // takes the lowest free number: this one
    }
  }
}

} // namespace

int run_command_line(int argc, char** argv) {
  open_standard_streams();
  if (const std::string why = too_low_limit(); !why.empty()) {
    return report(why.c_str(), ExitCode::cells_missing);
  }
  std::atexit(end_of_a_library);
  CLI::App app{"Benchmarks and verifies implementations of k-means and fuzzy c-means.",
               "clusterbench"};
  app.set_version_flag("--version", build_info::version());
  app.footer(kExitCodes);
  app.require_subcommand(1);
  Action action;
  install_signal_handlers();
  add_list_command(app, action);
  add_data_command(app, action);
  add_run_command(app, action);
  add_judge_command(app, action);
  add_table_command(app, action);
  add_ledger_command(app, action);
  add_report_command(app, action);
  add_compare_command(app, action);
  add_history_command(app, action);
  add_explain_command(app, action);
  add_gate_command(app, action);
  add_quality_command(app, action);
  add_probe_command(app, action);
  add_completion_command(app, action);
  add_examples(app);
  const int code = run_parsed(app, action, argc, argv);
  g_returned = true;
  // A disk may say only now that it is full.
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    const int error = g_write_error != 0 ? g_write_error : errno;
    const std::string why = error != 0 ? fmt::format(": {}", std::strerror(error)) : "";
    return report(("standard output cannot be written" + why).c_str(),
                  graver(static_cast<ExitCode>(code), ExitCode::cannot_write));
  }
  return code;
}

} // namespace clusterbench
