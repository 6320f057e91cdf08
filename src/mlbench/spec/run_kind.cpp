#include "mlbench/spec/run_kind.h"

#include <algorithm>
#include <array>

#include "mlbench/base/errors.h"

namespace mlbench::spec {

const RunKindRow& row_of(RunKind kind) {
  static constexpr std::array kRows = {
      RunKindRow{.kind = RunKind::kTrain, .name = "train", .worker = true, .trains = true},
      RunKindRow{.kind = RunKind::kCommand, .name = "command", .worker = false, .trains = false},
      RunKindRow{.kind = RunKind::kCollectives, .name = "collectives", .worker = true, .trains = false},
  };
  const auto found = std::ranges::find(kRows, kind, &RunKindRow::kind);
  MLBENCH_CHECK(found != kRows.end(), "a kind of run without a row");
  return *found;
}

}  // namespace mlbench::spec
