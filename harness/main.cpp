#include "harness/cli/cli.hpp"

int main(int argc, char** argv) {
  return clusterbench::run_command_line(argc, argv);
}
