#pragma once

// The download of a run: a zip in the layout of MLBench's dashboard (names and JSON keys of the existing archives, so
// that their tools read it), plus `run.json`.
//
//   result_train_loss @ R.json           every rank: mean loss over about 25 steps
//   result_KIND @ R.json                 every rank: seconds per epoch and step kind (fwd_pass, agg, ...), and
//   result_CumulativeTrainTimeEpoch @ R  their sum
//   result_train_METRIC @ 0.json         per epoch
//   result_val_global_METRIC @ 0.json    per evaluation on test data; result_val_global_loss @ 0.json, too
//   result_global_cum_KIND @ 0.json      rank 0's seconds over the whole run
//   result_TotalCumulativeTrainTime @ 0  rank 0's train_legacy clock
//   official_result.txt                  when the goal was reached
//   run.json                             the record
//
// Each result is an array of {date, value, cumulative}: date in UTC with milliseconds, value as text.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::report {

struct ZipMember {
  std::string name;
  std::string content;
};

// What the zip of a run holds, in a fixed order; reads the run's spools.
std::vector<ZipMember> download_members(const std::filesystem::path& run_dir, const Json& record);

// "85% Top 1 Validation Accuracy reached in 41.234 seconds, Compute: ... seconds, ..."; "" without a goal reached.
std::string official_result(const Json& record);

// The archive's bytes (deflated; member times are `mtime`, seconds since the epoch, so that equal input gives equal
// bytes).
std::string make_zip(const std::vector<ZipMember>& members, int64_t mtime);

// Writes the download of a run: `file` is the old or the new archive, never half of one.
void write_download(const std::filesystem::path& run_dir, const Json& record, const std::filesystem::path& file);

// All members of a zip. UserError when it is damaged or no zip.
std::vector<ZipMember> read_zip(const std::string& archive);

}  // namespace mlbench::report
