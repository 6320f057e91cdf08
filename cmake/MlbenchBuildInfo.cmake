# Target mlbench_build_info: src/mlbench/base/build_info.h. Everything that links base has it.

set(libraries "")
foreach(package fmt spdlog nlohmann_json CLI11 tomlplusplus LibArchive CURL OpenSSL ZLIB SQLite3 simdjson ICU Gloo LibTorch OneDnn)
  if(${package}_FOUND)
    string(TOUPPER ${package} upper)
    set(version "${${package}_VERSION}${${package}_VERSION_STRING}")
    if(version STREQUAL "")
      set(version ${${upper}_VERSION})
    endif()
    string(TOLOWER ${package} key)
    string(APPEND libraries "  {\"${key}\", \"${version}\"}, \\\n")
  endif()
endforeach()
set(build_type ${CMAKE_BUILD_TYPE})
if(MLBENCH_SANITIZE)
  string(APPEND build_type +${MLBENCH_SANITIZE})
endif()

set(generated ${PROJECT_BINARY_DIR}/generated/mlbench/base/generated)
file(CONFIGURE OUTPUT ${generated}/build_values.h @ONLY CONTENT [[
#pragma once
#define MLBENCH_VERSION "@PROJECT_VERSION@"
#define MLBENCH_COMPILER "@CMAKE_CXX_COMPILER_ID@ @CMAKE_CXX_COMPILER_VERSION@"
#define MLBENCH_BUILD_TYPE "@build_type@"
// clang-format off
#define MLBENCH_LIBRARIES { \
@libraries@}
// clang-format on
]])

# Runs in every build, but touches the header only when the answer changed, so that a
# build with nothing to do compiles nothing.
find_package(Git QUIET)
add_custom_target(mlbench_git_describe
  COMMAND ${CMAKE_COMMAND} -D GIT=${GIT_EXECUTABLE} -D SOURCE=${PROJECT_SOURCE_DIR}
    -D OUTPUT=${generated}/git_describe.h -P ${PROJECT_SOURCE_DIR}/cmake/git_describe.cmake
  BYPRODUCTS ${generated}/git_describe.h
  COMMENT "")

add_library(mlbench_build_info STATIC ${PROJECT_SOURCE_DIR}/src/mlbench/base/build_info.cpp)
add_dependencies(mlbench_build_info mlbench_git_describe)
target_include_directories(mlbench_build_info PUBLIC ${PROJECT_SOURCE_DIR}/src PRIVATE ${PROJECT_BINARY_DIR}/generated)
