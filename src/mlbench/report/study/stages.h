#pragma once

// Which stage of a step holds a run back: reading, decoding, computing or exchanging. Each stage was measured alone,
// and its time is compared with the step of the whole run. These are pure functions.
//
// A stage is the bottleneck where all of this holds:
//
//   lead      alone, it takes at least 1.25 times as long as each other stage
//   share     alone, it takes at least half of the step
//   waiting   with a stage of the input (read, decode), the step waits for data for at least a tenth of its time; with
//             any other stage it does not. So an input that is loaded beside the computation is not named
//
// The stages are balanced where one of these fails: to make one stage faster would help little. The answer is not known
// where the step, its waiting or a stage is not known, where a stage alone takes more than 1.15 times the step, and
// where all stages together take less than 0.7 of it. Then the parts were not measured as the whole, or something else
// takes the time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mlbench/base/json.h"

namespace mlbench::report {

enum class Stage : uint8_t { kRead, kDecode, kCompute, kExchange };
inline constexpr size_t kStages = 4;
std::string_view name_of(Stage stage);  // "read", "decode", "compute", "exchange"

// Seconds that each stage alone takes for one step of a rank, by Stage: 0 where the run has no such stage, empty where
// the time is not known.
using StageTimes = std::array<std::optional<double>, kStages>;

// The mean step of the whole run.
struct StepTime {
  std::optional<double> seconds;            // on rank 0; all ranks' steps take as long
  std::optional<double> waited_for_data_s;  // of these, on the rank that waited most: the others then wait for it
};

struct StageVerdict {
  enum class Kind : uint8_t { kNotKnown, kBalanced, kNamed } kind = Kind::kNotKnown;
  std::optional<Stage> slowest;  // the bottleneck where it is named, else the slowest stage; empty: not known
  double share = 0;              // of the step that the slowest stage takes alone
  double lead = 0;               // its time over that of the next; 0 where there is no other
  std::string text;              // for people, with the numbers: "decode: alone 84 % of the step, 2.1 times compute"
};
StageVerdict stage_verdict(const StageTimes& alone, const StepTime& step);

// {"kind": "named", "balanced" or "not known", "stage", "share", "lead", "text"}; what is not known is null.
Json to_json(const StageVerdict& verdict);

}  // namespace mlbench::report
