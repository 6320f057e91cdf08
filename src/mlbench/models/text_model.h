#pragma once

// What the descriptions of the text models share.

#include <string>

#include "mlbench/base/options.h"
#include "mlbench/models/graph.h"

namespace mlbench::models {

// Throws UserError unless the task has text: no shape of a sample, and at least 5 tokens (4 special ones).
void require_text(const spec::TaskSpec& task);

// The option model.size: "full" (the task's own), "small" or "tiny". Throws UserError listing these for any other.
std::string read_size(OptionReader& options);

// The range of dropout probabilities: from 0, below 1.
inline constexpr Range kDropoutRange{0, 0.99};

}  // namespace mlbench::models
