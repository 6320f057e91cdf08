#pragma once

// How far a run has come, from the growing spool of one rank. Each call of update() reads, in pieces, only what was
// appended since the last.

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "mlbench/base/json.h"
#include "mlbench/record/collectives.h"
#include "mlbench/record/spool_tail.h"

namespace mlbench::report {

struct Progress {
  int64_t segment = 0;                              // 0: no rank has started yet
  bool prepared = false;                            // the data is ready
  bool training = false;                            // the train clock started
  int64_t steps_done = 0;                           // global steps: the next step has this number
  int64_t steps_per_epoch = 0;                      // 0: not known yet
  int64_t last_step = 0;                            // the step where the run ends at the latest; 0: not known
  std::optional<double> loss;                       // mean training loss of this rank over the last few seconds
  std::optional<double> samples_per_s;              // of this rank, over the last few seconds of its train clock
  std::optional<Json> evaluation;                   // the last "evaluation" event
  int64_t evaluations = 0;                          // evaluations seen so far, in all segments
  std::optional<record::CollectiveRow> collective;  // the last row of a benchmark of collectives
  int64_t rows = 0;                                 // such rows seen so far
  std::optional<Json> goal;                         // the "goal" event
  std::optional<Json> end;                          // the "end" event
  std::optional<Json> failure;                      // the "failure" event
};

class ProgressReader {
 public:
  explicit ProgressReader(std::filesystem::path run_dir, int64_t rank = 0, int64_t first_segment = 1);
  // Reads what is new and returns whether anything was. Throws UserError for a spool of another version.
  bool update();
  const Progress& progress() const { return progress_; }
  // Sets what update() calls with each row of a benchmark of collectives.
  void each_row(std::function<void(const record::CollectiveRow& row)> take) { take_row_ = std::move(take); }

 private:
  // Sets `next_segment_` to the next segment with a spool and returns whether there is one. Segments whose rank did not
  // start are passed by.
  bool find_next_segment();
  void take(const record::StepRecord& record);
  void take(const Json& event);
  // Sets loss and rate to those of `window_`.
  void set_means();

  // The sums of steps that ended within a small share of the window.
  struct Steps {
    int64_t first_end_ns, last_end_ns;
    double loss, samples, train_ns;
  };

  std::filesystem::path run_dir_;
  int64_t rank_;
  int64_t next_segment_;
  std::optional<record::SpoolTail> tail_;  // of the segment progress_.segment
  std::deque<Steps> window_;               // the last seconds; bounded, however fast steps are
  Progress progress_;
  std::function<void(const record::CollectiveRow& row)> take_row_;
};

}  // namespace mlbench::report
