#include "mlbench/record/clocks.h"

namespace mlbench::record {

Clocks derive_clocks(const std::vector<RankSpool>& segments_of_one_rank) {
  Clocks clocks;
  for (const RankSpool& spool : segments_of_one_rank) {
    for (const StepRecord& record : spool.steps) {
      for (size_t kind = 0; kind < kStepKinds; ++kind) clocks.kinds_ns[kind] += record.kinds_ns[kind];
      clocks.steps += record.count;
      clocks.samples += static_cast<int64_t>(record.samples);
    }
  }
  for (const int64_t ns : clocks.kinds_ns) clocks.train_ns += ns;
  clocks.train_legacy_ns = clocks.train_ns - clocks.kinds_ns[static_cast<size_t>(StepKind::kBatchLoad)] -
                           clocks.kinds_ns[static_cast<size_t>(StepKind::kCheckpoint)];
  return clocks;
}

Json steps_json(const Clocks& clocks) {
  Json seconds = Json::object();
  for (size_t kind = 0; kind < kStepKinds; ++kind) {
    seconds[std::string(kStepKindNames[kind])] = static_cast<double>(clocks.kinds_ns[kind]) / 1e9;
  }
  return seconds;
}

}  // namespace mlbench::record
