# mlbench_module(<name> [SOURCES <file>...] [DEPS <dep>...] [PRIVATE_DEPS <dep>...] [TORCH] [COLD])
#   A static library `mlbench_<name>` (the / of a name becomes _) out of the files of one
#   folder of src/mlbench; without SOURCES a header-only one. A <dep> is a module's name
#   ("base", "comm/gloo") or an imported target. TORCH: links LibTorch, shares its
#   precompiled header, and is left out where MLBENCH_TORCH is OFF. COLD: its code runs seldom, so
#   what matters of it is how long it takes to compile.
#
# mlbench_program(<name> SOURCES <file>... DEPS <dep>... [TORCH])
#   An executable bin/<name>.
#
# mlbench_test(<name> SOURCES <file>... DEPS <dep>... [PROGRAMS <target>...] [DEFINES <name=value>...] [TORCH] [WORKER]
#              [LABELS <label>...] [TIMEOUT <seconds>] [RUN_SERIAL] [RESOURCE_LOCK <name>...] [ENVIRONMENT <VAR=value>...])
#   A GoogleTest executable tests/<name> and one ctest entry <name>. Its first label is the
#   folder; LABELS adds more ("long", "speed" and the like take it out of the default set). A test that
#   starts ranks or measures time says RUN_SERIAL; one that starts the worker says WORKER, which is
#   not there without LibTorch. PROGRAMS are built before the test, the worker where there is one.
#   In its environment: MLBENCH_TEST_SOURCE_DIR, MLBENCH_TEST_BINARY_DIR, MLBENCH_TEST_MLBENCH,
#   MLBENCH_TEST_WORKER (the two programs), MLBENCH_TEST_PYTHON (imports torch; may be empty).
#
# mlbench_script_test(<name> <script> [ARGUMENTS <word>...] [PYTHON <program>] [LABELS <label>...]
#                     [TIMEOUT <seconds>] [RUN_SERIAL] [RESOURCE_LOCK <name>...] [ENVIRONMENT <VAR=value>...]
#                     [SKIP <pattern>])
#   A ctest entry that runs a script of this folder by PYTHON (default: the python3 on the PATH). The
#   script ends with 77 where it was skipped, or writes what SKIP matches.

function(_mlbench_deps out)
  set(targets "")
  foreach(dep IN LISTS ARGN)
    if(NOT dep MATCHES "::" AND NOT dep MATCHES "^mlbench_")
      string(REPLACE / _ dep mlbench_${dep})
    endif()
    list(APPEND targets ${dep})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY MLBENCH_DEPS ${targets})
  set(${out} ${targets} PARENT_SCOPE)
endfunction()

# To be called last: CMake takes the name of a target that nobody makes for that of a library.
function(mlbench_check_deps)
  get_property(targets GLOBAL PROPERTY MLBENCH_DEPS)
  list(REMOVE_DUPLICATES targets)
  foreach(target IN LISTS targets)
    if(NOT TARGET ${target})
      message(WARNING "DEPS name ${target}, which is neither a module nor found by cmake/MlbenchLibraries.cmake")
    endif()
  endforeach()
endfunction()

# An object library for others to take their precompiled header from: mlbench_<name>_pch.
function(_mlbench_precompile name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;DEPS;OPTIONS")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/${name}_pch.cpp CONTENT "")
  add_library(mlbench_${name}_pch OBJECT ${PROJECT_BINARY_DIR}/generated/${name}_pch.cpp)
  target_link_libraries(mlbench_${name}_pch PRIVATE ${arg_DEPS})
  target_compile_options(mlbench_${name}_pch PRIVATE ${arg_OPTIONS})
  target_precompile_headers(mlbench_${name}_pch PRIVATE ${arg_HEADERS})
endfunction()

# What tests include most takes longer to read than they do. Nor are they optimised: they call what is. At that level
# GCC 12 sees bounds of strings exceeded that are not.
set(MLBENCH_TEST_OPTIONS "$<$<CONFIG:Release>:-O1;-Wno-array-bounds;-Wno-stringop-overflow>")
set(torch_headers <ATen/ATen.h> <torch/autograd.h>)
set(test_headers <gmock/gmock.h> <nlohmann/json.hpp> <algorithm> <fstream> <functional> <map> <set> <thread>)
set(test_deps GTest::gmock nlohmann_json::nlohmann_json)
if(MLBENCH_TORCH)
  _mlbench_precompile(torch HEADERS ${torch_headers} DEPS LibTorch::LibTorch)
endif()
if(MLBENCH_TESTS)
  _mlbench_precompile(test HEADERS ${test_headers} DEPS ${test_deps} OPTIONS ${MLBENCH_TEST_OPTIONS})
endif()
if(MLBENCH_TESTS AND MLBENCH_TORCH)
  _mlbench_precompile(torch_test HEADERS ${torch_headers} ${test_headers} DEPS LibTorch::LibTorch ${test_deps}
    OPTIONS ${MLBENCH_TEST_OPTIONS})
endif()

function(_mlbench_use_torch target)
  target_link_libraries(${target} PRIVATE LibTorch::LibTorch)
  target_precompile_headers(${target} REUSE_FROM mlbench_torch_pch)
endfunction()

function(mlbench_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH;COLD" "" "SOURCES;DEPS;PRIVATE_DEPS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mlbench_module(${name}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_TORCH AND NOT MLBENCH_TORCH)
    return()
  endif()
  string(REPLACE / _ target mlbench_${name})
  _mlbench_deps(deps ${arg_DEPS})
  _mlbench_deps(private_deps ${arg_PRIVATE_DEPS})
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${target} PUBLIC ${deps} PRIVATE ${private_deps})
    if(arg_COLD)
      target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
    if(arg_TORCH)
      _mlbench_use_torch(${target})
    endif()
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${target} INTERFACE ${deps})
  endif()
endfunction()

function(mlbench_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "SOURCES;DEPS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mlbench_program(${name}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_TORCH AND NOT MLBENCH_TORCH)
    return()
  endif()
  _mlbench_deps(deps ${arg_DEPS})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${deps})
  if(arg_TORCH)
    _mlbench_use_torch(${name})
  endif()
endfunction()

function(mlbench_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH;WORKER;RUN_SERIAL" "TIMEOUT"
    "SOURCES;DEPS;PROGRAMS;DEFINES;LABELS;RESOURCE_LOCK;ENVIRONMENT")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mlbench_test(${name}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT MLBENCH_TESTS OR ((arg_TORCH OR arg_WORKER) AND NOT MLBENCH_TORCH))
    return()
  endif()
  string(REPLACE / _ target ${name})
  _mlbench_deps(deps ${arg_DEPS})
  add_executable(${target} ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE ${deps} GTest::gmock GTest::gtest_main)
  target_compile_options(${target} PRIVATE ${MLBENCH_TEST_OPTIONS})
  target_compile_definitions(${target} PRIVATE ${arg_DEFINES})
  if(arg_TORCH)
    target_link_libraries(${target} PRIVATE LibTorch::LibTorch)
    target_precompile_headers(${target} REUSE_FROM mlbench_torch_test_pch)
  else()
    target_precompile_headers(${target} REUSE_FROM mlbench_test_pch)
  endif()
  if(NOT MLBENCH_TORCH)
    list(REMOVE_ITEM arg_PROGRAMS mlbench-worker)
  endif()
  if(arg_PROGRAMS)
    add_dependencies(${target} ${arg_PROGRAMS})
  endif()

  add_test(NAME ${name} COMMAND ${target})
  mlbench_test_properties(${name} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT} RUN_SERIAL ${arg_RUN_SERIAL}
    RESOURCE_LOCK ${arg_RESOURCE_LOCK} ENVIRONMENT ${arg_ENVIRONMENT})
  # GoogleTest exits 0 when every test of a binary was skipped; ctest is to list it. Tests that failed come behind those
  # that were skipped.
  set_property(TEST ${name} PROPERTY
    SKIP_REGULAR_EXPRESSION "\\[  PASSED  \\] 0 tests[.]\n(\\[  SKIPPED \\][^\n]*\n)+\n*$")
endfunction()

function(mlbench_script_test name script)
  cmake_parse_arguments(PARSE_ARGV 2 arg "RUN_SERIAL" "PYTHON;TIMEOUT;SKIP" "ARGUMENTS;LABELS;RESOURCE_LOCK;ENVIRONMENT")
  if(NOT arg_PYTHON)
    find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
    set(arg_PYTHON ${Python3_EXECUTABLE})
  endif()
  add_test(NAME ${name} COMMAND ${arg_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${arg_ARGUMENTS})
  mlbench_test_properties(${name} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT} RUN_SERIAL ${arg_RUN_SERIAL}
    RESOURCE_LOCK ${arg_RESOURCE_LOCK} ENVIRONMENT ${arg_ENVIRONMENT})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 SKIP_REGULAR_EXPRESSION "${arg_SKIP}")
endfunction()

# mlbench_test_python(<variable>)
#   The Python of tests that need libraries: MLBENCH_TEST_PYTHON, Debian's where it has PyTorch; else the python3 on the
#   PATH, with which such tests say what they lack.
function(mlbench_test_python variable)
  set(${variable} ${MLBENCH_TEST_PYTHON} PARENT_SCOPE)
  if(NOT MLBENCH_TEST_PYTHON)
    find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
    set(${variable} ${Python3_EXECUTABLE} PARENT_SCOPE)
  endif()
endfunction()

# The properties that every ctest entry has, for tests that are not GoogleTest binaries too.
function(mlbench_test_properties name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;RUN_SERIAL" "LABELS;RESOURCE_LOCK;ENVIRONMENT")
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(REGEX REPLACE "^src/mlbench/" "" folder ${folder})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(MLBENCH_SANITIZE)
    math(EXPR arg_TIMEOUT "4 * ${arg_TIMEOUT}")
  endif()
  set(environment
    MLBENCH_TEST_SOURCE_DIR=${PROJECT_SOURCE_DIR}
    MLBENCH_TEST_BINARY_DIR=${PROJECT_BINARY_DIR}
    MLBENCH_TEST_MLBENCH=${PROJECT_BINARY_DIR}/bin/mlbench
    MLBENCH_TEST_WORKER=${PROJECT_BINARY_DIR}/bin/mlbench-worker
    MLBENCH_TEST_PYTHON=${MLBENCH_TEST_PYTHON}
    ${MLBENCH_SANITIZE_ENVIRONMENT}
    ${arg_ENVIRONMENT})
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${arg_TIMEOUT}
    LABELS "${folder};${arg_LABELS}"
    RUN_SERIAL "${arg_RUN_SERIAL}"
    RESOURCE_LOCK "${arg_RESOURCE_LOCK}"
    ENVIRONMENT "${environment}")
endfunction()
