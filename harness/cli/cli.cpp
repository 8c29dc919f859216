#include "harness/cli/cli.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/machine/build_info.hpp"
#include "harness/system/messages.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <memory>

namespace clusterbench {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 all right; 1 regression; 2 a wrong result; 3 inconclusive; 4 environments do\n"
    "not match, or a ledger was edited; 5 cells missing, crashed or timed out; 64 usage or bad\n"
    "input; 74 output cannot be written; 130 interrupted.";

int report(const char* message, ExitCode code) {
  say("clusterbench: {}\n", message);
  return static_cast<int>(code);
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
    app.exit(error);
    return static_cast<int>(ExitCode::usage);
  }
  try {
    return static_cast<int>(action());
  } catch (const datasets::InputError& error) {
    return report(error.what(), ExitCode::usage);
  } catch (const datasets::OutputError& error) {
    return report(error.what(), ExitCode::cannot_write);
  } catch (const std::exception& error) {
    // Printing throws no type of its own; the stream knows.
    return std::ferror(stdout) != 0 ? static_cast<int>(ExitCode::cannot_write)
                                    : report(error.what(), ExitCode::cells_missing);
  }
}

} // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app{"Benchmarks and verifies implementations of k-means and fuzzy c-means.",
               "clusterbench"};
  app.set_version_flag("--version", build_info::version());
  app.footer(kExitCodes);
  app.require_subcommand(1);
  Action action;
  add_list_command(app, action);
  add_data_command(app, action);
  add_run_command(app, action);
  add_table_command(app, action);
  add_ledger_command(app, action);
  add_compare_command(app, action);
  add_explain_command(app, action);
  add_gate_command(app, action);
  add_quality_command(app, action);
  add_probe_command(app, action);
  const int code = run_parsed(app, action, argc, argv);
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
