#include "harness/cli.hpp"

#include "datasets/errors.hpp"
#include "harness/build_info.hpp"
#include "harness/child.hpp"
#include "harness/commands.hpp"

#include <fmt/format.h>
#include <memory>

namespace clusterbench {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 all right; 1 regression; 2 a wrong result; 3 inconclusive; 4 environments do\n"
    "not match; 5 cells missing, crashed or timed out; 64 usage or bad input; 74 output cannot be\n"
    "written; 130 interrupted.";

int report(const char* message, ExitCode code) {
  fmt::print(stderr, "clusterbench: {}\n", message);
  return static_cast<int>(code);
}

} // namespace

void add_child_command(CLI::App& app, Action& action) {
  struct Descriptors {
    int job = -1;
    int report = -1;
  };
  const auto descriptors = std::make_shared<Descriptors>();
  CLI::App* command = app.add_subcommand("child", "")->group(""); // hidden
  command->add_option("--job-fd", descriptors->job)->required();
  command->add_option("--report-fd", descriptors->report)->required();
  command->callback([&action, descriptors] {
    action = [descriptors] {
      return static_cast<ExitCode>(run_child(descriptors->job, descriptors->report));
    };
  });
}

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
  add_probe_command(app, action);
  add_child_command(app, action);
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
    return report(error.what(), ExitCode::cells_missing);
  }
}

} // namespace clusterbench
