// The runner's calls of MPI. An error in any of them ends all ranks, as MPI does by itself.
#include "harness/worker/rank_calls.hpp"

#include <atomic>
#include <cstdlib>
#include <fcntl.h>
#include <mpi.h>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace clusterbench {
namespace {

// Open MPI's messages go through files in /dev/shm. A sandbox that got no namespace of mounts has
// closed it, as in a chroot: they go through the scratch folder then, which may be on a disk.
void find_room_for_messages() {
  const int file = ::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  const char* const scratch = std::getenv("TMPDIR");
  if (file >= 0) {
    close(file);
  } else if (scratch != nullptr) {
    setenv("OMPI_MCA_btl_vader_backing_directory", scratch, 0);
  }
}

// Never finalised: that would wait for all ranks, and the harness ends them all at once.
void open() {
  find_room_for_messages();
  int granted = 0;
  // one thread of a rank calls MPI
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &granted);
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

std::atomic<bool>* noted_abort = nullptr;

void note_abort_in(std::atomic<bool>& has_aborted) {
  noted_abort = &has_aborted;
}

} // namespace
} // namespace clusterbench

/// In the place of the library's, through MPI's interface for profilers: mpirun ends all ranks when
/// one of them aborts, and may end before it has said which.
extern "C" [[gnu::visibility("default")]] int MPI_Abort(MPI_Comm communicator, int code) {
  if (clusterbench::noted_abort != nullptr) {
    *clusterbench::noted_abort = true;
  }
  return PMPI_Abort(communicator, code);
}

extern "C" [[gnu::visibility("default")]] const void* clusterbench_rank_calls() {
  using namespace clusterbench;
  static const RankCalls calls{open, rank, world, barrier, version, note_abort_in};
  return &calls;
}
