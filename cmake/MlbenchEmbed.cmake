# mlbench_embed(<target> <symbol> BASE <folder> FILES <file>...)
#   Puts files into a target of src/mlbench and defines, in namespace mlbench,
#     std::span<const EmbeddedFile> <symbol>();
#   (declare it in a header of the module; EmbeddedFile is in mlbench/base/embedded_file.h).
#   A file's name is its path relative to BASE; the order is that of the names. Take FILES
#   from file(GLOB ... CONFIGURE_DEPENDS ...), so that a new file needs no edited line.
function(mlbench_embed target symbol)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "BASE" "FILES")
  if(NOT TARGET ${target})
    return()
  endif()
  list(SORT arg_FILES)
  set(blobs "")
  set(externs "")
  set(rows "")
  set(i 0)
  foreach(file IN LISTS arg_FILES)
    file(RELATIVE_PATH name ${arg_BASE} ${file})
    string(APPEND blobs "${symbol}_${i}_begin:\\n.incbin \\\"${file}\\\"\\n${symbol}_${i}_end:\\n")
    string(APPEND externs "extern const char ${symbol}_${i}_begin[], ${symbol}_${i}_end[];\n")
    string(APPEND rows "    {\"${name}\", {${symbol}_${i}_begin, ${symbol}_${i}_end}},\n")
    math(EXPR i "${i} + 1")
  endforeach()
  set(source ${PROJECT_BINARY_DIR}/generated/${symbol}.cpp)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
#include <array>
#include <span>

#include "mlbench/base/embedded_file.h"

asm(".pushsection .rodata\n@blobs@.popsection\n");
extern "C" {
@externs@}

namespace mlbench {
std::span<const EmbeddedFile> @symbol@();
std::span<const EmbeddedFile> @symbol@() {
  static const std::array<EmbeddedFile, @i@> files{{
@rows@  }};
  return files;
}
}  // namespace mlbench
]])
  # Out of unity builds, which forget what an object depends on.
  set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES
    OBJECT_DEPENDS "${arg_FILES}" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${source})
endfunction()
