#include "mlbench/base/read_bytes.h"

#include <sstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench {

std::optional<ReadBytes> read_bytes_so_far() {
  try {
    return parse_read_bytes(read_file("/proc/self/io"));
  } catch (const IoError&) {
    return std::nullopt;
  }
}

std::optional<ReadBytes> parse_read_bytes(const std::string& text) {
  std::istringstream in(text);
  std::optional<int64_t> devices, calls;
  std::string name;
  for (int64_t bytes = 0; in >> name >> bytes;) {
    if (name == "read_bytes:") devices = bytes;
    if (name == "rchar:") calls = bytes;
  }
  if (!devices || !calls) return std::nullopt;
  return ReadBytes{*devices, *calls};
}

}  // namespace mlbench
