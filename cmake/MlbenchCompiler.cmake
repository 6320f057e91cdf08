# Compiler, linker and their helpers: the same for every target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

# No -march here: a binary must start on any AVX2 machine. A source file with
# wider instructions sets its own flags and is chosen at run time.

find_program(MLBENCH_CCACHE ccache)
mark_as_advanced(MLBENCH_CCACHE)
if(MLBENCH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without this sloppiness ccache refuses every file that uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${MLBENCH_CCACHE})
endif()

# Linked by the system's linker. Debian's mold 1.10 is faster, but a program with one thread-local byte, as LibTorch's
# headers bring, does not start where that byte comes to lie before a page: ld.so then protects a page that is not there.

# BuildInfo::build_id is this note.
add_link_options(LINKER:--build-id=sha1)

# Everything ends in a program: -fPIE for libraries too lets them share one precompiled header.
add_compile_options(-fPIE)
add_link_options(-pie)

add_compile_options(-Wall -Wextra -Wpedantic $<$<BOOL:${MLBENCH_WERROR}>:-Werror>)
# GCC 12 sees overlaps in std::string concatenation that are not there (GCC bug 105651).
add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)

# The presets for release and sanitizers compile up to twelve files of a module or a test as one (CMake's unity build):
# most of the time goes into the same headers and templates, once per file. So within a module, and within a test, names
# in anonymous namespaces differ. GCC takes the files for headers, hence the warning.
if(CMAKE_UNITY_BUILD)
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()

if(MLBENCH_SANITIZE STREQUAL "address")
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(MLBENCH_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread)
elseif(MLBENCH_SANITIZE STREQUAL "fuzzer")
  set(sanitize -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined)
elseif(NOT MLBENCH_SANITIZE STREQUAL "")
  message(FATAL_ERROR "MLBENCH_SANITIZE is \"${MLBENCH_SANITIZE}\": expected address, thread, fuzzer or empty")
endif()
if(MLBENCH_SANITIZE)
  # GCC's flow-based warnings report false positives in instrumented code.
  add_compile_options(${sanitize} -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>)
  add_link_options(${sanitize})
  set(MLBENCH_SANITIZE_ENVIRONMENT
    UBSAN_OPTIONS=print_stacktrace=1
    ASAN_OPTIONS=detect_stack_use_after_return=1
    TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan.supp)
endif()
