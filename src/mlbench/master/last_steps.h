#pragma once

// The last steps of active runs, as figures for GET /metrics. The spools' reader (ingest.h) hands the steps over.

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "mlbench/record/spool.h"

namespace mlbench::master {

struct StepFigures {
  int64_t steps_done = 0;                      // of the rank that has done most
  std::optional<int64_t> steps_expected = {};  // where the run ends at the latest
  // Over the last steps of all ranks. They are empty while a rank has recorded no step.
  std::optional<double> samples_per_s = {}, loss = {};
  // Shares of the ranks' train clock: in communication that the step waits for, and waiting for the slowest rank
  // (record/exchange.h), hidden waiting included. The latter is empty for a single rank.
  std::optional<double> communication_share = {}, wait_share = {};
};

// Thread-safe. Memory is bounded by the number of ranks of the runs that are kept.
class LastSteps {
 public:
  // Steps of a segment before the last one that was seen are ignored.
  void take(int64_t run, const record::SpoolHeader& header, const record::StepRecord& step);
  // Forgets all other runs.
  void keep_only(const std::set<int64_t>& runs);
  // Empty where no step was seen. `workers` is how many ranks the run has.
  std::optional<StepFigures> of(int64_t run, const std::filesystem::path& run_dir, int64_t workers);

 private:
  // A StepRecord without what nobody asks for here.
  struct Steps {
    uint64_t first = 0, count = 0, samples = 0;
    double loss_sum = 0;
    int64_t end_ns = 0, total_ns = 0, communication_ns = 0;
    std::vector<int64_t> exchange_ns;  // of each step
  };
  struct Run {
    int64_t segment = 0;
    std::optional<int64_t> steps_expected;
    std::map<int64_t, std::deque<Steps>> ranks;
  };
  static std::optional<double> wait_share(const Run& run);

  std::mutex mutex_;
  std::map<int64_t, Run> runs_;
};

}  // namespace mlbench::master
