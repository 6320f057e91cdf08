#pragma once

// Measures how fast a framework computes in bfloat16 beside float32 on this processor: training steps of a small
// network in both precisions, by turns, with one thread. What the framework does beside its products (conversions,
// Winograd's order in float32) is in the steps, as it is in a run's.

#include <functional>
#include <string>
#include <string_view>

#include "mlbench/base/clock.h"
#include "mlbench/base/json.h"
#include "mlbench/catalog/worker/catalog.h"
#include "mlbench/record/bfloat16_speed.h"

namespace mlbench::worker {

// Measures pairs of steps, of which each precision is first in every other pair. Each step is called once before, which
// does not count. After `kEnoughPairs`, or after a fifth of a second with as many as have an interval, there is no
// further pair: how many there are does not depend on their ratios.
using Step = std::function<void()>;
inline constexpr int kEnoughPairs = 21;
record::Bfloat16Speed compare_steps(std::string_view work, const Step& float32, const Step& bfloat16,
                                    const Clock& clock);

// Measures one kind of work (models::kConvolutions, models::kProducts). Not known, with the framework's reason, where
// it cannot compute that here.
record::Bfloat16Speed measure_bfloat16(const catalog::FrameworkRow& framework, std::string_view work,
                                       const Clock& clock);

// Both kinds of work, for `mlbench-worker --bfloat16-speed`. The clock is processor time, which other programs lengthen
// little. Throws UserError where the program does not have the framework.
Json measure_bfloat16(const catalog::WorkerProgram& program, const std::string& framework);

}  // namespace mlbench::worker
