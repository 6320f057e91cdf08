#include "mlbench/base/relative_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/text.h"
#include "mlbench/base/utf8.h"

namespace mlbench {

namespace {

constexpr size_t kMostKeyBytes = 1024;  // S3's limit

}  // namespace

void check_key(std::string_view where, std::string_view key) {
  const auto refuse = [&](const char* reason) {
    throw UserError(fmt::format("{}: '{}': {}", where, printable(key, 100), reason));
  };
  if (key.empty()) refuse("a name is empty");
  if (key.size() > kMostKeyBytes) refuse("a name of more than 1,024 bytes");
  if (has_control_character(key)) refuse("a name with a line break or another control character");
  if (!is_utf8(std::string(key))) refuse("a name that is not UTF-8");
  if (key.front() == '/') refuse("an absolute path, expected one that begins in its container");
  if (std::ranges::count(split_at(key, '/'), "..") > 0) refuse("a path that leaves its folder by '..'");
}

}  // namespace mlbench
