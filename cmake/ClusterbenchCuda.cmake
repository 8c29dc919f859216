# Finds the CUDA toolchain. Sets CLUSTERBENCH_CUDA_MISSING to the reason when it cannot be used, and
# otherwise defines clusterbench_cuda_options: how every .cu file of ours is compiled.

set(CLUSTERBENCH_CUDA_MISSING "")
if(CLUSTERBENCH_CUDA STREQUAL "OFF")
  set(CLUSTERBENCH_CUDA_MISSING "switched off with -DCLUSTERBENCH_CUDA=OFF")
  return()
endif()

# The toolkit's usual home is not always on the PATH.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(CLUSTERBENCH_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(CLUSTERBENCH_NVCC)
    set(CMAKE_CUDA_COMPILER ${CLUSTERBENCH_NVCC})
  endif()
endif()
# For the GPUs of this machine alone, since each architecture more adds minutes to a build. Without one PTX,
# which a driver compiles when it loads it, for all from Ampere on.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE capabilities ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+[.][0-9]" architectures "${capabilities}")
  string(REPLACE "." "" architectures "${architectures}")
  list(REMOVE_DUPLICATES architectures)
  if(NOT architectures)
    set(architectures 80-virtual)
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${architectures} CACHE STRING "CUDA architectures to build for")
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  set(CLUSTERBENCH_CUDA_MISSING "no CUDA compiler (nvcc) was found")
else()
  enable_language(CUDA)
  find_package(CUDAToolkit QUIET)
  if(NOT TARGET CUDA::cublas)
    set(CLUSTERBENCH_CUDA_MISSING "the CUDA toolkit has no cuBLAS")
  endif()
endif()
if(CLUSTERBENCH_CUDA_MISSING)
  if(CLUSTERBENCH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CUDA was asked for, but ${CLUSTERBENCH_CUDA_MISSING}")
  endif()
  return()
endif()

if(NOT TARGET clusterbench_cuda_options)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  add_library(clusterbench_cuda_options INTERFACE)
  # CMake 3.25 accepts CMAKE_CUDA_STANDARD 20 and passes nothing, hence the flag by hand.
  target_compile_options(clusterbench_cuda_options INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 -Xcompiler=-Wall,-Wextra,-Wshadow -lineinfo>)
  target_link_libraries(clusterbench_cuda_options INTERFACE CUDA::cudart_static)
endif()
