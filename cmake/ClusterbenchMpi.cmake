# Finds Open MPI. Sets CLUSTERBENCH_MPI_MISSING to the reason when there is none. Another MPI will not
# do: the harness tells mpirun what to do in Open MPI's own words.

set(CLUSTERBENCH_MPI_MISSING "")
set(MPI_CXX_SKIP_MPICXX TRUE) # the C++ calls that MPI gave up
find_package(MPI QUIET COMPONENTS CXX)
if(NOT TARGET MPI::MPI_CXX)
  set(CLUSTERBENCH_MPI_MISSING
    "Open MPI was not found (Debian packages libopenmpi-dev and openmpi-bin)")
  return()
endif()

include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_CXX)
check_cxx_source_compiles("#include <mpi.h>
#ifndef OPEN_MPI
#error another MPI
#endif
int main() { return 0; }" CLUSTERBENCH_HAS_OPEN_MPI)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT CLUSTERBENCH_HAS_OPEN_MPI)
  set(CLUSTERBENCH_MPI_MISSING "the MPI that was found is not Open MPI")
endif()
