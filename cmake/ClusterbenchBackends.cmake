# A backend is a folder under impls/ with its own small CMakeLists.txt, which calls exactly one of
#
#   clusterbench_backend(<name> LIBRARIES ...)            build its files, one variant and module each
#   clusterbench_backend_missing(<name> "<reason>")       its toolchain is not here
#   clusterbench_programs(<name> COMMAND ... FILES ...)   its files are programs (docs/peers.md)
#
# A module is a shared object that only the runner loads. Its description is written when it is built.

define_property(GLOBAL PROPERTY CLUSTERBENCH_BACKEND_ROWS BRIEF_DOCS "rows of the backend table")
define_property(GLOBAL PROPERTY CLUSTERBENCH_PROGRAM_ROWS BRIEF_DOCS "rows of the table of programs")
define_property(GLOBAL PROPERTY CLUSTERBENCH_MODULE_TARGETS BRIEF_DOCS "modules")
define_property(GLOBAL PROPERTY CLUSTERBENCH_MODULE_ROWS BRIEF_DOCS "lines of the list of modules")

# OBJECTS: targets whose objects every module of the backend holds. SOURCES: default all .cpp files.
function(clusterbench_backend name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES;OBJECTS;SOURCES")
  if(NOT arg_SOURCES)
    file(GLOB arg_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
  foreach(source IN LISTS arg_SOURCES)
    clusterbench_module(${name} ${source} LIBRARIES ${arg_LIBRARIES} ${arg_OBJECTS})
  endforeach()
  clusterbench_backend_rows(${name})
endfunction()

# Names a backend whose modules are added one by one.
function(clusterbench_backend_rows name)
  set_property(GLOBAL APPEND_STRING PROPERTY CLUSTERBENCH_BACKEND_ROWS
    "    {\"${name}\", \"\", \"\"},\n")
endfunction()

function(clusterbench_module backend source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "FOLDER" "LIBRARIES")
  cmake_path(GET source STEM stem)
  if(NOT arg_FOLDER)
    set(arg_FOLDER ${PROJECT_BINARY_DIR}/modules)
    set_property(GLOBAL APPEND_STRING PROPERTY CLUSTERBENCH_MODULE_ROWS
      "${stem} ${backend} ${source}\n")
  endif()
  set_property(GLOBAL APPEND PROPERTY CLUSTERBENCH_MODULE_TARGETS ${stem})
  add_library(${stem} MODULE ${source})
  target_link_libraries(${stem} PRIVATE clusterbench_options clusterbench_warnings ${arg_LIBRARIES})
  target_link_options(${stem} PRIVATE -Wl,--as-needed)
  set_target_properties(${stem} PROPERTIES PREFIX ""
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${arg_FOLDER})
  add_dependencies(${stem} clusterbench-runner)
  add_custom_command(TARGET ${stem} POST_BUILD
    COMMAND $<TARGET_FILE:clusterbench-runner> --describe $<TARGET_FILE:${stem}>
      > ${arg_FOLDER}/${stem}.json
    VERBATIM)
endfunction()

# What its files are called stays known, to tell a variant that is not built from a misspelt one.
# FILES: default all in its folder.
function(clusterbench_backend_missing name reason)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "FILES")
  message(STATUS "Backend ${name} is not built: ${reason}")
  set(files ${arg_FILES})
  if(NOT files)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp
      ${CMAKE_CURRENT_SOURCE_DIR}/*.cu ${CMAKE_CURRENT_SOURCE_DIR}/*.py)
  endif()
  list(FILTER files INCLUDE REGEX "/(kmeans|fcm)_[a-z0-9_]+\\.[a-z]+$")
  list(TRANSFORM files REPLACE "^.*/([^/]*)\\.[a-z]+$" "\\1")
  list(JOIN files " " files)
  set_property(GLOBAL APPEND_STRING PROPERTY CLUSTERBENCH_BACKEND_ROWS
    "    {\"${name}\", \"${reason}\", \"${files}\"},\n")
endfunction()

# Programs describe themselves when the build is configured, so that nobody has to wait for them
# whenever variants are listed. COMMAND runs a file.
function(clusterbench_programs name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "COMMAND;FILES")
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/describe "{\"request\": \"describe\"}\n")
  foreach(program IN LISTS arg_FILES)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${program})
    execute_process(COMMAND ${arg_COMMAND} ${program}
      INPUT_FILE ${CMAKE_CURRENT_BINARY_DIR}/describe
      OUTPUT_VARIABLE description ERROR_VARIABLE errors RESULT_VARIABLE result TIMEOUT 600) # of a machine with other work
    string(JSON reply ERROR_VARIABLE no_json GET "${description}" reply)
    if(NOT result EQUAL 0 OR no_json OR NOT reply STREQUAL describe)
      message(FATAL_ERROR "${program} does not describe itself (${result}):\n${description}${errors}")
    endif()
    set_property(GLOBAL APPEND_STRING PROPERTY CLUSTERBENCH_PROGRAM_ROWS
      "      {R\"peer(${program})peer\", R\"peer(${description})peer\"},\n")
  endforeach()
  clusterbench_backend_rows(${name})
endfunction()
