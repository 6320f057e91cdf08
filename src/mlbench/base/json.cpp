#include "mlbench/base/json.h"

#include "mlbench/base/files.h"
#include "mlbench/base/input.h"

namespace mlbench {

Json read_json_file(const std::filesystem::path& path) {
  return read_json_file(path, {"a JSON file", 64 * inputs::kMiB});
}

void write_json_file(const std::filesystem::path& path, const Json& value) {
  write_file_atomically(path, value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string canonical_json(const Json& value) {
  // nlohmann::json (unlike ordered_json) keeps keys sorted.
  return nlohmann::json(value).dump();
}

}  // namespace mlbench
