# The template of the page that `clusterbench report` writes, made beside the program where there is npm. A
# build without npm, or without a network, goes on: report says then what to do.

find_program(CLUSTERBENCH_NPM npm)
file(GLOB page_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/page/src/* ${PROJECT_SOURCE_DIR}/page/*.json
  ${PROJECT_SOURCE_DIR}/page/build.mjs)
if(CLUSTERBENCH_NPM)
  set(page_tried ${PROJECT_BINARY_DIR}/page/tried)
  add_custom_command(OUTPUT ${page_tried}
    COMMAND ${PROJECT_SOURCE_DIR}/scripts/bundle_page.sh --if-possible ${PROJECT_BINARY_DIR}
    COMMAND ${CMAKE_COMMAND} -E touch ${page_tried}
    DEPENDS ${page_sources} ${PROJECT_SOURCE_DIR}/scripts/bundle_page.sh
    COMMENT "Bundling the page of clusterbench report" VERBATIM)
  add_custom_target(clusterbench_page DEPENDS ${page_tried})
  add_dependencies(clusterbench clusterbench_page)
endif()
