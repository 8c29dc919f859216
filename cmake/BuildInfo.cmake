# Writes build_info.cpp; touches it only when something changed, so that nothing is rebuilt in vain.
execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse HEAD
  OUTPUT_VARIABLE GIT_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
execute_process(COMMAND git -C ${SOURCE_DIR} status --porcelain --untracked-files=no
  OUTPUT_VARIABLE changes OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT GIT_COMMIT)
  set(GIT_COMMIT "unknown")
endif()
set(GIT_DIRTY false)
if(changes)
  set(GIT_DIRTY true)
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
