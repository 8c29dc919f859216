// The subcommands. Each adds itself to the parser and sets the action that main runs afterwards.
#pragma once

#include "harness/system/exit_codes.hpp"

#include <CLI/CLI.hpp>
#include <functional>

namespace clusterbench {

using Action = std::function<ExitCode()>;

void add_list_command(CLI::App& app, Action& action);
void add_data_command(CLI::App& app, Action& action);
void add_run_command(CLI::App& app, Action& action);
void add_table_command(CLI::App& app, Action& action);
void add_ledger_command(CLI::App& app, Action& action);
void add_report_command(CLI::App& app, Action& action);
void add_compare_command(CLI::App& app, Action& action);
void add_history_command(CLI::App& app, Action& action);
void add_explain_command(CLI::App& app, Action& action);
void add_gate_command(CLI::App& app, Action& action);
void add_quality_command(CLI::App& app, Action& action);
void add_judge_command(CLI::App& app, Action& action);
void add_probe_command(CLI::App& app, Action& action);
void add_completion_command(CLI::App& app, Action& action);

} // namespace clusterbench
