#include "harness/cli/cli.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/machine/build_info.hpp"
#include "harness/system/messages.hpp"
#include "harness/system/process.hpp"
#include "harness/system/process_limits.hpp"
#include "harness/system/shared_memory.hpp"

#include <algorithm>
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

// The parser's own answers go the same way as the commands': help that nobody could read is no
// success.
int run_parsed(CLI::App& app, const Action& action, int argc, char** argv) {
  if (const std::string problem = unknown_command(app, argc, argv); !problem.empty()) {
    return report(problem.c_str(), ExitCode::usage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success); // --help, --version
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
    // Printing throws no type of its own; the stream knows.
    if (std::ferror(stdout) != 0) {
      return static_cast<int>(ExitCode::cannot_write);
    }
    const bool nameless = std::string_view(error.what()) == "std::bad_alloc";
    const bool no_memory = is_out_of_memory(error); // or no room for another thread
    const std::string message =
        fmt::format("{}{}{}", no_memory ? "there is not enough memory" : "",
                    no_memory && !nameless ? ": " : "", nameless ? "" : error.what());
    return report(message.c_str(), ExitCode::cells_missing);
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
    const std::string why = errno != 0 ? fmt::format(": {}", std::strerror(errno)) : "";
    return report(("standard output cannot be written" + why).c_str(),
                  graver(static_cast<ExitCode>(code), ExitCode::cannot_write));
  }
  return code;
}

} // namespace clusterbench
