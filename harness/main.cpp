#include "harness/cli/cli.hpp"

#include <cstdio>
#include <cstdlib>
#include <new>

int main(int argc, char** argv) try {
  return clusterbench::run_command_line(argc, argv);
} catch (const std::bad_alloc&) { // not even for the command line
  std::fputs("clusterbench: there is not enough memory\n", stderr);
  std::_Exit(5);
}
