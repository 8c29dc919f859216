#include "harness/cli/commands.hpp"
#include "harness/problem/registry.hpp"
#include "harness/problem/table.hpp"
#include "harness/system/shell_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

// What follows a command and is no option; shells ask the program itself for the names.
struct Operands {
  const char* names;    ///< an argument of `completion`
  const char* commands; ///< that take such names, as patterns of the shell's `case`
};
constexpr Operands kOperands[] = {{"tables", "run | table | gate"}, {"variants", "explain"}};

std::vector<std::string> names_of_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

std::string bash_script(const CLI::App& app) {
  std::vector<std::string> commands;
  std::string options;
  for (const CLI::App* command : app.get_subcommands({})) {
    commands.push_back(command->get_name());
    options += fmt::format("      {}) words='{}' ;;\n", command->get_name(),
                           fmt::join(names_of_options(*command), " "));
  }
  std::string operands;
  for (const Operands& each : kOperands) {
    operands +=
        fmt::format("      {}) words=$(\"${{COMP_WORDS[0]}}\" completion {} 2>/dev/null) ;;\n",
                    each.commands, each.names);
  }
  return fmt::format(R"script(# Completes the command line of clusterbench in bash.
_clusterbench() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} words=
  if ((COMP_CWORD == 1)); then
    words='{}'
  elif [[ $before == --variant ]]; then
    words=$("${{COMP_WORDS[0]}}" completion variants 2>/dev/null)
  elif [[ $word == -* ]]; then
    case ${{COMP_WORDS[1]}} in
{}    esac
  elif [[ $before != -* ]]; then
    case ${{COMP_WORDS[1]}} in
{}    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}
complete -o default -F _clusterbench clusterbench
)script",
                     fmt::join(commands, " "), options, operands);
}

// "name:description", as zsh's _describe takes it.
std::string described(const std::string& name, const std::string& description) {
  return "    " + quoted_for_shell(name + ":" + description) + "\n";
}

std::string zsh_script(const CLI::App& app) {
  std::string commands, options;
  for (const CLI::App* command : app.get_subcommands({})) {
    commands += described(command->get_name(), command->get_description());
    options += fmt::format("  {}) options=(\n", command->get_name());
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        options += described("--" + name, option->get_description());
      }
    }
    options += "    ) ;;\n";
  }
  std::string operands;
  for (const Operands& each : kOperands) {
    operands +=
        fmt::format("    {}) compadd -- ${{(f)\"$($words[1] completion {} 2>/dev/null)\"}} ;;\n",
                    each.commands, each.names);
  }
  return fmt::format(R"script(#compdef clusterbench
local -a commands options
commands=(
{})
if (( CURRENT == 2 )); then
  _describe command commands
  return
fi
case $words[2] in
{}esac
if [[ $words[CURRENT-1] == --variant ]]; then
  compadd -- ${{(f)"$($words[1] completion variants 2>/dev/null)"}}
elif [[ $words[CURRENT] == -* ]]; then
  _describe option options
else
  case $words[2] in
{}  esac
  _files
fi
)script",
                     commands, options, operands);
}

std::string variant_names() {
  std::vector<std::string> names;
  for (const KnownVariant* variant : all_variants()) {
    names.push_back(variant->meta.name);
  }
  return fmt::format("{}\n", fmt::join(names, "\n"));
}

} // namespace

void add_completion_command(CLI::App& app, Action& action) {
  const auto what = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("completion", "Completion of the command line, for bash and zsh");
  command
      ->add_option(
          "what", *what,
          "bash or zsh: the script for that shell; tables or variants: the names that it asks for")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "tables", "variants"}));
  command->callback([&app, &action, what] {
    action = [&app, what] {
      fmt::print("{}", *what == "bash"     ? bash_script(app)
                       : *what == "zsh"    ? zsh_script(app)
                       : *what == "tables" ? fmt::format("{}\n", fmt::join(table_names(), "\n"))
                                           : variant_names());
      return ExitCode::ok;
    };
  });
}

} // namespace clusterbench
