// The program of the tests: clusterbench in a folder whose modules are faulty, or real ones with a
// fault planted (planted.cpp).
//
// CLUSTERBENCH_ORACLE_BUDGET=OPERATIONS: runs that take more are judged by themselves.
#include "harness/campaign/oracles.hpp"
#include "harness/cli/cli.hpp"

#include <cstdlib>

int main(int argc, char** argv) {
  if (const char* const budget = std::getenv("CLUSTERBENCH_ORACLE_BUDGET"); budget != nullptr) {
    clusterbench::oracle_budget() = std::atof(budget);
  }
  return clusterbench::run_command_line(argc, argv);
}
