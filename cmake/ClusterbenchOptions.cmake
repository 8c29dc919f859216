# Two interface targets that every target of ours links: how we compile, and what we are warned of.

add_library(clusterbench_options INTERFACE)
target_compile_features(clusterbench_options INTERFACE cxx_std_20)
target_include_directories(clusterbench_options INTERFACE ${PROJECT_SOURCE_DIR})

set(march_flag "")
if(CLUSTERBENCH_MARCH)
  set(march_flag "-march=${CLUSTERBENCH_MARCH}")
endif()
set(sanitize_flag "")
if(CLUSTERBENCH_SANITIZE)
  set(sanitize_flag "-fsanitize=${CLUSTERBENCH_SANITIZE}" -fno-omit-frame-pointer)
endif()
target_compile_options(clusterbench_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:${march_flag}> $<$<COMPILE_LANGUAGE:CXX>:${sanitize_flag}>)
target_link_options(clusterbench_options INTERFACE ${sanitize_flag})

add_library(clusterbench_warnings INTERFACE)
set(warnings -Wall -Wextra -Wshadow -Wconversion)
# Instrumented loops are no longer unrolled as asked for, which g++ 12 says in a warning without a name.
if(CLUSTERBENCH_WERROR AND NOT CLUSTERBENCH_SANITIZE)
  list(APPEND warnings -Werror)
endif()
target_compile_options(clusterbench_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${warnings}>)
