// The runner's calls of MPI. An error in any of them ends all ranks, as MPI does by itself.
#include "harness/worker/rank_calls.hpp"

#include <mpi.h>
#include <stdexcept>
#include <string>

namespace clusterbench {
namespace {

// Never finalised: that would wait for all ranks, and the harness ends them all at once.
void open() {
  int granted = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &granted); // one thread of a rank calls MPI
  if (granted < MPI_THREAD_FUNNELED) {
    throw std::runtime_error("this MPI does not allow a process to have threads");
  }
}

int rank() {
  int number = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  return number;
}

int world() {
  int count = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  return count;
}

void barrier() {
  MPI_Barrier(MPI_COMM_WORLD);
}

std::string version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string whole(text, static_cast<std::size_t>(length));
  return whole.substr(0, whole.find(',')); // "Open MPI v4.1.4, package: ..."
}

} // namespace
} // namespace clusterbench

extern "C" [[gnu::visibility("default")]] const void* clusterbench_rank_calls() {
  using namespace clusterbench;
  static const RankCalls calls{open, rank, world, barrier, version};
  return &calls;
}
