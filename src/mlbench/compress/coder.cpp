#include "mlbench/compress/coder.h"

#include "mlbench/base/errors.h"
#include "mlbench/compress/identity.h"

namespace mlbench::compress {

namespace {

struct Row {
  const char* name;
  std::unique_ptr<GradientCoder> (*make)(const FlatLayout& layout);
};
constexpr Row kCoders[] = {
    {"none",
     [](const FlatLayout& layout) -> std::unique_ptr<GradientCoder> {
       return std::make_unique<IdentityCoder>(layout);
     }},
};

}  // namespace

std::vector<std::string> coder_names() {
  std::vector<std::string> names;
  for (const Row& row : kCoders) names.emplace_back(row.name);
  return names;
}

std::unique_ptr<GradientCoder> make_coder(const std::string& name, const FlatLayout& layout) {
  std::string names;
  for (const Row& row : kCoders) {
    if (row.name == name) return row.make(layout);
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  throw UserError("unknown compression '" + name + "'; valid: " + names);
}

}  // namespace mlbench::compress
