#include "mlbench/base/utf8.h"

#include "mlbench/base/json.h"

namespace mlbench {

bool is_utf8(const std::string& text) {
  try {
    Json(text).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

}  // namespace mlbench
