#pragma once

// Reads what scores are made of (score.h): AlgoPerf's folders, or runs of mlbench.
//
// AlgoPerf: FOLDER/study_N/WORKLOAD/trial_N/eval_measurements.csv, where WORKLOAD may end in _jax or _pytorch. Of each
// study the trial counts that reached the target in the fewest evaluations, of equally many the one with the least
// time. Times are the column `score` at that evaluation.
//
// mlbench: whatever read_runs() takes. A workload is a task with its goal and its number of workers. Its times are
// those of the repeats to the goal.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "mlbench/report/study/score.h"

namespace mlbench::report {

struct Submissions {
  std::vector<Submission> list;                 // in the order of the folders, by their names
  std::map<std::string, std::string> held_out;  // AlgoPerf's variants of a workload
  std::vector<std::string> notes;
};

// `targets` is AlgoPerf's workload_targets.json; "": beside a folder, or above it. Throws UserError, naming the file or
// folder, for folders without measurements, without targets, or of both kinds; for two of one name; and for values that
// are no numbers.
Submissions read_submissions(const std::vector<std::filesystem::path>& folders, const std::filesystem::path& targets);

}  // namespace mlbench::report
