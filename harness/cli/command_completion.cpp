#include "harness/cli/commands.hpp"
#include "harness/problem/registry.hpp"
#include "harness/problem/table.hpp"
#include "harness/system/shell_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

// What stands after a command or an option; after these options several may.
struct Words {
  const char* after; ///< as patterns of the shell's `case`
  const char* words; ///< or empty: the program itself is asked for the names of...
  const char* names; ///< ...these, an argument of `completion`
};
constexpr Words kOperands[] = {{"run | table | gate", "", "tables"}, {"explain", "", "variants"}};
// Only next to the command.
constexpr Words kFirst[] = {{"completion", "bash zsh", ""}, {"ledger", "check repair", ""}};
constexpr Words kValues[] = {
    {"--variant", "", "variants"}, {"--precision", "f32 f64", ""}, {"--family", "kmeans fcm", ""}};

bool are_asked(const Words& words) {
  return *words.words == '\0';
}

std::string bash_cases(std::span<const Words> all) {
  std::string cases;
  for (const Words& each : all) {
    const std::string words =
        are_asked(each)
            ? fmt::format("$(\"${{COMP_WORDS[0]}}\" completion {} 2>/dev/null)", each.names)
            : fmt::format("'{}'", each.words);
    cases += fmt::format("      {}) words={} ;;\n", each.after, words);
  }
  return cases;
}

std::string zsh_cases(std::span<const Words> all) {
  std::string cases;
  for (const Words& each : all) {
    const std::string words =
        are_asked(each)
            ? fmt::format("${{(f)\"$($words[1] completion {} 2>/dev/null)\"}}", each.names)
            : std::string(each.words);
    cases += fmt::format("    {}) compadd -- {} ;;\n", each.after, words);
  }
  return cases;
}

std::string patterns(std::span<const Words> all) {
  std::vector<const char*> after;
  for (const Words& each : all) {
    after.push_back(each.after);
  }
  return fmt::format("{}", fmt::join(after, "|"));
}

std::vector<std::string> names_of_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

// Options that no value follows, of all commands.
std::string flags_of(const CLI::App& app) {
  std::set<std::string> flags;
  for (const CLI::App* command : app.get_subcommands({})) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        if (option->get_items_expected_max() == 0) {
          flags.insert("--" + name);
        }
      }
    }
  }
  return fmt::format("{}", fmt::join(flags, "|"));
}

std::string bash_script(const CLI::App& app) {
  std::vector<std::string> commands;
  std::string options;
  for (const CLI::App* command : app.get_subcommands({})) {
    commands.push_back(command->get_name());
    options += fmt::format("      {}) words='{}' ;;\n", command->get_name(),
                           fmt::join(names_of_options(*command), " "));
  }
  return fmt::format(R"script(# Completes the command line of clusterbench in bash.
_clusterbench() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} option= words= i
  if [[ $word == '=' ]]; then # bash reads --option=value as three words
    word=
  fi
  for ((i = COMP_CWORD - 1; i > 1; --i)); do # the option that the word may be a value of
    if [[ ${{COMP_WORDS[i]}} == -* ]]; then
      option=${{COMP_WORDS[i]}}
      break
    fi
  done
  if ((COMP_CWORD == 1)); then
    words='{}'
  elif [[ $word == -* ]]; then
    case ${{COMP_WORDS[1]}} in
{}    esac
  elif [[ $option == @({}) ]]; then
    case $option in
{}    esac
  elif [[ $option == @(|{}) || $i -lt $((COMP_CWORD - 1)) ]]; then
    case ${{COMP_WORDS[1]}} in
{}    esac
    if ((COMP_CWORD == 2)); then
      case ${{COMP_WORDS[1]}} in
{}      esac
    fi
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}
complete -o default -F _clusterbench clusterbench
)script",
                     fmt::join(commands, " "), options, patterns(kValues), bash_cases(kValues),
                     flags_of(app), bash_cases(kOperands), bash_cases(kFirst));
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
local option= word=$words[CURRENT] i
if [[ $word == --*=* ]]; then # --option=value
  option=${{word%%=*}}
  word=${{word#*=}}
  compset -P '*='
else
  for ((i = CURRENT - 1; i > 2; --i)); do # the option that the word may be a value of
    if [[ $words[i] == -* ]]; then
      option=$words[i]
      break
    fi
  done
fi
if [[ $word == -* ]]; then
  _describe option options
elif [[ $option == ({}) ]]; then
  case $option in
{}  esac
else
  case $words[2] in
{}  esac
  if (( CURRENT == 3 )); then
    case $words[2] in
{}    esac
  fi
  _files
fi
)script",
                     commands, options, patterns(kValues), zsh_cases(kValues), zsh_cases(kOperands),
                     zsh_cases(kFirst));
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
