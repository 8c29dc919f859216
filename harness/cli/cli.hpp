// The command line: one function per subcommand.
#pragma once

namespace clusterbench {

/// Parses the arguments, does what they say, and returns the program's exit code.
int run_command_line(int argc, char** argv);

} // namespace clusterbench
