#include "mlbench/compress/coder.h"

#include "mlbench/base/errors.h"
#include "mlbench/compress/identity.h"

namespace mlbench::compress {

namespace {

MakeCoder read_identity(OptionReader&) {
  return [](const CoderContext& context) { return std::make_unique<IdentityCoder>(context.layout); };
}

struct Row {
  const char* name;
  MakeCoder (*read)(OptionReader& options);
};
constexpr Row kCoders[] = {
    {"none", read_identity},
};

}  // namespace

std::vector<std::string> coder_names() {
  std::vector<std::string> names;
  for (const Row& row : kCoders) names.emplace_back(row.name);
  return names;
}

MakeCoder read_coder(const std::string& name, OptionReader& options) {
  std::string names;
  for (const Row& row : kCoders) {
    if (row.name == name) return row.read(options);
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  throw UserError("unknown compression '" + name + "'; valid: " + names);
}

}  // namespace mlbench::compress
