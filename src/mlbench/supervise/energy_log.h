#pragma once

// The energy that this host used while the ranks of a run worked, and until the run reached its goal: the record's
// `energy`. A meter counts what all programs of the host use (base/energy_meter.h).

#include <deque>
#include <filesystem>
#include <optional>
#include <utility>

#include "mlbench/base/energy_meter.h"
#include "mlbench/record/build_record.h"
#include "mlbench/record/record.h"

namespace mlbench::supervise {

class EnergyLog {
 public:
  // `folder` is that of the meter.
  explicit EnergyLog(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Counts from now on. `wall_s` is the run's wall time so far, `progress` has the energy of earlier segments.
  void begin_segment(const record::RunProgress& progress);
  void end_segment() { meter_.reset(); }
  // Adds what was used until now, at the wall time of `progress`. Does nothing where there is no meter.
  void look(record::RunProgress& progress);
  // Adds the energy to the goal, once, where `record` says that the goal was reached. Returns whether it was added.
  // Between two looks, energy is taken to rise evenly.
  bool note_goal(const record::Record& record, record::RunProgress& progress) const;

 private:
  struct Look {
    double wall_s = 0, joules = 0;
  };

  const std::filesystem::path folder_;
  std::optional<EnergyMeter> meter_;
  double joules_before_ = 0;  // of earlier segments
  std::deque<Look> looks_;    // the last ones
};

}  // namespace mlbench::supervise
