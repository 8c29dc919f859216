# A backend is a folder under impls/ with its own small CMakeLists.txt, which calls exactly one of
#
#   clusterbench_backend(<name> LIBRARIES ...)            build its files, one variant each
#   clusterbench_backend_missing(<name> "<reason>")       its toolchain is not here
#   clusterbench_peers(<name> COMMAND ... FILES ...)      its files are programs (docs/peers.md)
#
# Every backend is an OBJECT library: in a STATIC one the linker would drop the self-registering
# objects, since nothing refers to them.

define_property(GLOBAL PROPERTY CLUSTERBENCH_BACKEND_ROWS BRIEF_DOCS "rows of the backend table")
define_property(GLOBAL PROPERTY CLUSTERBENCH_PEER_ROWS BRIEF_DOCS "rows of the table of programs")
define_property(GLOBAL PROPERTY CLUSTERBENCH_BACKEND_TARGETS BRIEF_DOCS "object libraries")

function(clusterbench_backend name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES;SOURCES")
  if(NOT arg_SOURCES)
    file(GLOB arg_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
  add_library(clusterbench_${name} OBJECT ${arg_SOURCES})
  target_link_libraries(clusterbench_${name}
    PUBLIC clusterbench_options ${arg_LIBRARIES}
    PRIVATE clusterbench_warnings)
  set_property(GLOBAL APPEND PROPERTY CLUSTERBENCH_BACKEND_TARGETS clusterbench_${name})
  set_property(GLOBAL APPEND_STRING PROPERTY CLUSTERBENCH_BACKEND_ROWS
    "    {\"${name}\", \"\", \"\"},\n")
endfunction()

# What its files are called stays known, to tell a variant that is not built from a misspelt one.
function(clusterbench_backend_missing name reason)
  message(STATUS "Backend ${name} is not built: ${reason}")
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/*.cu
    ${CMAKE_CURRENT_SOURCE_DIR}/*.py)
  list(TRANSFORM files REPLACE "^.*/([^/]*)\\.[a-z]+$" "\\1")
  list(JOIN files " " files)
  set_property(GLOBAL APPEND_STRING PROPERTY CLUSTERBENCH_BACKEND_ROWS
    "    {\"${name}\", \"${reason}\", \"${files}\"},\n")
endfunction()

# Programs describe themselves when the build is configured, so that nobody has to wait for them
# whenever variants are listed. COMMAND runs a file.
function(clusterbench_peers name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "COMMAND;FILES")
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/describe "{\"request\": \"describe\"}\n")
  foreach(program IN LISTS arg_FILES)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${program})
    execute_process(COMMAND ${arg_COMMAND} ${program}
      INPUT_FILE ${CMAKE_CURRENT_BINARY_DIR}/describe
      OUTPUT_VARIABLE description ERROR_VARIABLE errors RESULT_VARIABLE result TIMEOUT 60)
    string(JSON reply ERROR_VARIABLE no_json GET "${description}" reply)
    if(NOT result EQUAL 0 OR no_json OR NOT reply STREQUAL describe)
      message(FATAL_ERROR "${program} does not describe itself (${result}):\n${description}${errors}")
    endif()
    set_property(GLOBAL APPEND_STRING PROPERTY CLUSTERBENCH_PEER_ROWS
      "      {R\"peer(${program})peer\", R\"peer(${description})peer\"},\n")
  endforeach()
  set_property(GLOBAL APPEND_STRING PROPERTY CLUSTERBENCH_BACKEND_ROWS
    "    {\"${name}\", \"\", \"\"},\n")
endfunction()
