# Read by cpack: the version of the packages, from that of the project and `git describe` of the programs to be packed.
#
#   v0.1.0                          0.1.0
#   v0.1.0-14-g0123456789ab         0.1.0+14.g0123456789ab
#   0123456789ab, or an older tag   0.1.0~git20250102030405.0123456789ab    the commit's time, so that later is more
#
# A tree with changes adds ".dirty". The time is SOURCE_DATE_EPOCH where that is set, and packing time without git.

file(READ ${CPACK_MLBENCH_DESCRIBE} _header)
string(REGEX MATCH "MLBENCH_GIT_DESCRIBE \"([^\"]+)\"" _found "${_header}")
set(_describe "${CMAKE_MATCH_1}")
set(_dirty "")
if(_describe MATCHES "^(.*)-dirty$")
  set(_describe ${CMAKE_MATCH_1})
  set(_dirty .dirty)
endif()
string(REPLACE . "\\." _tag v${CPACK_MLBENCH_VERSION})
if(_describe MATCHES "^${_tag}$")
  set(_more "")
elseif(_describe MATCHES "^${_tag}-([0-9]+)-(g[0-9a-f]+)$")
  set(_more +${CMAKE_MATCH_1}.${CMAKE_MATCH_2})
else()
  string(REGEX REPLACE "^.*-g" "" _commit "${_describe}")
  if("$ENV{SOURCE_DATE_EPOCH}" STREQUAL "")
    find_program(_git git)
    if(_git)
      execute_process(COMMAND ${_git} show --no-patch --format=%ct ${_commit} WORKING_DIRECTORY ${CPACK_MLBENCH_SOURCE}
        OUTPUT_VARIABLE _seconds RESULT_VARIABLE _failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
      if(NOT _failed)
        set(ENV{SOURCE_DATE_EPOCH} ${_seconds})  # string(TIMESTAMP) and the archives take it from here
      endif()
    endif()
  endif()
  string(TIMESTAMP _time %Y%m%d%H%M%S UTC)
  set(_more ~git${_time}.${_commit})
endif()

set(CPACK_PACKAGE_VERSION ${CPACK_MLBENCH_VERSION}${_more}${_dirty})
set(CPACK_DEBIAN_PACKAGE_VERSION ${CPACK_PACKAGE_VERSION})
set(CPACK_DEBIAN_WORKER_PACKAGE_DEPENDS
  "mlbench (= ${CPACK_PACKAGE_VERSION}), mlbench-libtorch (= ${CPACK_PACKAGE_VERSION})")
set(CPACK_DEBIAN_TENSORFLOW_PACKAGE_DEPENDS
  "mlbench-worker (= ${CPACK_PACKAGE_VERSION}), mlbench-libtensorflow (= ${CPACK_PACKAGE_VERSION})")
