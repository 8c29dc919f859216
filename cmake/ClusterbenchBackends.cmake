# A backend is a folder under impls/ with its own small CMakeLists.txt, which calls exactly one of
#
#   clusterbench_backend(<name> LIBRARIES ...)            build its files, one variant each
#   clusterbench_backend_missing(<name> "<reason>")       its toolchain is not here
#
# Every backend is an OBJECT library: in a STATIC one the linker would drop the self-registering
# objects, since nothing refers to them.

define_property(GLOBAL PROPERTY CLUSTERBENCH_BACKEND_ROWS BRIEF_DOCS "rows of the backend table")
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
    "    {\"${name}\", \"\"},\n")
endfunction()

function(clusterbench_backend_missing name reason)
  message(STATUS "Backend ${name} is not built: ${reason}")
  set_property(GLOBAL APPEND_STRING PROPERTY CLUSTERBENCH_BACKEND_ROWS
    "    {\"${name}\", \"${reason}\"},\n")
endfunction()
