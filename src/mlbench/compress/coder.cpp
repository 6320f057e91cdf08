#include "mlbench/compress/coder.h"

#include "mlbench/base/choices.h"
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

std::vector<std::string> coder_names() { return names_of(kCoders); }

MakeCoder read_coder(const std::string& name, OptionReader& options) {
  return row_named(kCoders, "compression", name).read(options);
}

}  // namespace mlbench::compress
