#include "mlbench/dataset/program_beside.h"

#include "mlbench/base/paths.h"

namespace mlbench::dataset {

std::filesystem::path program_beside(std::string_view name) {
  const std::filesystem::path folder = program_path().parent_path();
  const std::filesystem::path beside = folder / name, in_bin = folder.parent_path() / "bin" / name;
  return !std::filesystem::exists(beside) && std::filesystem::exists(in_bin) ? in_bin : beside;
}

}  // namespace mlbench::dataset
