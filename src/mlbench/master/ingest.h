#pragma once

// From the spools of run folders into series: reads on from the stored offset, whoever stopped reading there.

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "mlbench/store/series.h"

namespace mlbench::master {

// Thread-safe.
class Ingest {
 public:
  explicit Ingest(store::SeriesStore& series) : series_(series) {}

  // Everything that the ranks of the run have written until now:
  //   train_loss lr samples_per_s step_s bytes, KIND_s    every rank, per step record (seconds and bytes of one step)
  //   val_global_METRIC, train_METRIC                     rank 0, per evaluation on test data, per epoch
  // Of a custom run instead what its script recorded (metrics/rank-R.jsonl): each value under its name, and its epoch.
  // UserError for a damaged run.
  void catch_up(const std::filesystem::path& run_dir);

 private:
  bool read_lines(const std::filesystem::path& run_dir, int64_t run, int64_t rank);
  bool read_some(const std::filesystem::path& run_dir, int64_t run, int64_t segment, int64_t rank);

  store::SeriesStore& series_;
  std::mutex mutex_;
};

}  // namespace mlbench::master
