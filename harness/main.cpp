#include "harness/cli/cli.hpp"

#include <fcntl.h>

// A descriptor 0, 1 or 2 that the caller has closed would be given to the next file that is opened,
// a ledger say, and messages would go into it.
static void open_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (fcntl(stream, F_GETFD) < 0) {
      static_cast<void>(open("/dev/null", O_RDWR)); // takes the lowest free number: this one
    }
  }
}

int main(int argc, char** argv) {
  open_standard_streams();
  return clusterbench::run_command_line(argc, argv);
}
