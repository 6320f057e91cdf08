#include "mlbench/base/json.h"

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench {

Json read_json_file(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw UserError(path.string() + ": not valid JSON: " + error.what());
  }
}

void write_json_file(const std::filesystem::path& path, const Json& value) {
  write_file_atomically(path, value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string canonical_json(const Json& value) {
  // nlohmann::json (unlike ordered_json) keeps keys sorted.
  return nlohmann::json(value).dump();
}

}  // namespace mlbench
