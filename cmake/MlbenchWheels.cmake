# mlbench_wheels_folder(<variable> <name> <list of pinned wheels>): where tools/setup.sh unpacks these wheels, which
# names the folder in the same way; configures again when the list changes.
function(mlbench_wheels_folder variable name pins)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${pins})
  if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
    set(cache $ENV{XDG_CACHE_HOME})
  else()
    set(cache $ENV{HOME}/.cache)
  endif()
  file(SHA256 ${pins} key)
  string(SUBSTRING ${key} 0 12 key)
  set(${variable} ${cache}/mlbench/${name}-${key} PARENT_SCOPE)
endfunction()
