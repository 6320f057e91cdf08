# MLBENCH_GIT_DESCRIBE in the environment says it for a tree without .git.
set(describe unknown)
if(NOT "$ENV{MLBENCH_GIT_DESCRIBE}" STREQUAL "")
  set(describe $ENV{MLBENCH_GIT_DESCRIBE})
elseif(GIT)
  execute_process(COMMAND ${GIT} describe --always --dirty --tags --abbrev=12
    WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE out RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed)
    set(describe ${out})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once\n#define MLBENCH_GIT_DESCRIBE \"${describe}\"\n")
