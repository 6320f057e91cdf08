#pragma once

// The energy that the hosts of a run's ranks used while these worked, and until the run reached its goal: the record's
// `energy`. A meter counts what all programs of its host use (base/energy_meter.h). This host's meter is read here;
// guards say what other hosts used.

#include <deque>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "mlbench/base/energy_meter.h"
#include "mlbench/exec/executor.h"
#include "mlbench/record/build_record.h"
#include "mlbench/record/record.h"

namespace mlbench::supervise {

class EnergyLog {
 public:
  // `folder` is that of the meter.
  explicit EnergyLog(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Counts from now on, at the run's wall time of `progress`, which has the energy of earlier segments.
  void begin_segment(const record::RunProgress& progress);
  void end_segment() { meter_.reset(); }
  // Adds what was used until now, at the wall time of `progress`. `elsewhere` is GroupUsage::energy: where it is empty,
  // the ranks are on this host. Does nothing where no segment has begun.
  void look(record::RunProgress& progress, const std::vector<exec::HostEnergy>& elsewhere);
  // Adds the energy to the goal, once, where `record` says that the goal was reached. Returns whether it was added.
  // Between two looks, energy is taken to rise evenly.
  bool note_goal(const record::Record& record, record::RunProgress& progress) const;

 private:
  struct Look {
    double wall_s = 0, joules = 0;
  };
  void remember(double wall_s, std::optional<double> joules);

  const std::filesystem::path folder_;
  std::optional<EnergyMeter> meter_;  // of this host, while a segment runs
  record::Energy before_;             // of earlier segments
  std::deque<Look> looks_;            // the last ones at which the energy of all hosts was known
};

}  // namespace mlbench::supervise
