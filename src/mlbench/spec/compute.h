#pragma once

// What computes the steps of a training (--compute): the framework, or an emulated accelerator.

#include <string>

#include "mlbench/base/numbers.h"

namespace mlbench::spec {

inline constexpr Range kEmulatedSteps{1e-6, 3600};  // seconds

// The seconds of a step in the text "emulated=150ms"; 0 for "", with which the framework computes. Throws UserError
// for any other text, with what is valid.
double emulated_step_of(const std::string& compute);

}  // namespace mlbench::spec
