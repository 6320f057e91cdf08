#include "mlbench/spec/former_names.h"

#include <fmt/format.h>

#include "mlbench/base/errors.h"

namespace mlbench::spec {

namespace {

struct FormerName {
  std::string_view former, present, since;
};
constexpr FormerName kFrameworks[] = {{"onednn", "native", "2026-11-28"}};

}  // namespace

std::string present_framework(std::string_view recorded) {
  for (const FormerName& one : kFrameworks) {
    if (one.former == recorded) return std::string(one.present);
  }
  return std::string(recorded);
}

void refuse_former_framework(std::string_view asked) {
  for (const FormerName& one : kFrameworks) {
    if (one.former != asked) continue;
    throw UserError(fmt::format("unknown framework '{}': it is called '{}' since {}", asked, one.present, one.since));
  }
}

}  // namespace mlbench::spec
