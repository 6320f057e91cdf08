#include "mlbench/spec/compute.h"

#include <fmt/format.h>

#include <string_view>

#include "mlbench/base/errors.h"

namespace mlbench::spec {

double emulated_step_of(const std::string& compute) {
  constexpr std::string_view kEmulated = "emulated=";
  if (compute.empty()) return 0;
  if (!compute.starts_with(kEmulated)) {
    throw UserError(
        fmt::format("--compute '{}' is not 'emulated=STEP', with the time of a step, as in emulated=150ms; leave it "
                    "out for a run that computes",
                    shortened(compute)));
  }
  return parse_duration(compute.substr(kEmulated.size()), "--compute emulated=", kEmulatedSteps);
}

}  // namespace mlbench::spec
